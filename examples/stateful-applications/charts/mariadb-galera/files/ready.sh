#!/bin/bash
# Tells whether this replica has all data and accepts queries.
mariadb --defaults-file=/etc/mariadb/my.cnf --skip-column-names --execute "SHOW STATUS LIKE 'wsrep_ready'" | grep -qw ON
