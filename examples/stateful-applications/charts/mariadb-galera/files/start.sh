#!/bin/bash
# Starts a replica. It joins the others if one of them answers. Otherwise it is the first one: pod 0 with an empty volume, or the replica that was
# the last to stop, which has all data.
set -euo pipefail
trap 'exit 0' TERM # the first process of a container ignores signals otherwise
folder=/var/lib/mysql
data=$folder/data
config=--defaults-file=/etc/mariadb/my.cnf

# answers HOST tells whether a replica listens there.
answers() { timeout 2 bash -c "exec 3<>/dev/tcp/$1/4567" 2>/dev/null; }

# create makes a database and its user, and renames it when it is complete.
create() {
	rm -rf "$folder/new" /tmp/init.sql
	(umask 077 && cat >/tmp/init.sql <<-SQL
		FLUSH PRIVILEGES;
		ALTER USER root@localhost IDENTIFIED BY '$MARIADB_ROOT_PASSWORD';
		CREATE DATABASE \`$MARIADB_DATABASE\`;
		CREATE USER '$MARIADB_USER'@'%' IDENTIFIED BY '$MARIADB_PASSWORD';
		GRANT ALL ON \`$MARIADB_DATABASE\`.* TO '$MARIADB_USER'@'%';
	SQL
	)
	mariadb-install-db "$config" --datadir="$folder/new" --wsrep-on=OFF --force --skip-test-db --auth-root-socket-user=mysql --extra-file=/tmp/init.sql >/tmp/install.log ||
		{ cat /tmp/install.log; exit 1; }
	rm /tmp/init.sql
	mv "$folder/new" "$data"
}

others=()
for ((i = 0; i < REPLICAS; i++)); do
	[[ $POD_NAME == "$NAME-$i" ]] || others+=("$NAME-$i.$SERVICE")
done
start=()
while true; do
	for other in "${others[@]}"; do
		if answers "$other"; then
			echo "joining $other"
			break 2
		fi
	done
	if grep -qs '^safe_to_bootstrap: 1' "$data/grastate.dat" || [[ ! -d $data && $POD_NAME == "$NAME-0" ]]; then
		echo "no other replica runs: this one is the first"
		[[ -d $data ]] || create
		start=(--wsrep-new-cluster)
		break
	fi
	echo "waiting for one of: ${others[*]}"
	sleep 1
done
mkdir -p "$data"
addresses=$(IFS=,; echo "${others[*]}")
# The others reach this replica at the address of its pod, so no translation of addresses may be between them.
exec mariadbd "$config" "${start[@]}" --wsrep-cluster-name="$GALERA_NAME" --wsrep-cluster-address="gcomm://$addresses" \
	--wsrep-node-name="$POD_NAME" --wsrep-node-address="$POD_IP" --wsrep-provider-options='gcache.size=8M'
