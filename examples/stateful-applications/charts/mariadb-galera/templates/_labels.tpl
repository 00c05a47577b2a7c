{{- define "labels" -}}
app.kubernetes.io/name: mariadb-galera
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
