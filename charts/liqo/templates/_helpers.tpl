{{/*
ID of this cluster: the value, else the one installed, else one made from the UID of kube-system, so that it stays whatever happens to the release. Tools that
render the chart without asking the cluster, like helm template and Argo CD, have to be told.
*/}}
{{- define "liqo.clusterID" -}}
{{- $id := .Values.discovery.config.clusterID -}}
{{- if not $id -}}
{{- range (lookup "v1" "ConfigMap" .Release.Namespace "").items -}}
{{- if eq (dig "metadata" "labels" "app.kubernetes.io/name" "" .) "clusterid-configmap" -}}
{{- $id = dig "data" "CLUSTER_ID" "" . -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $id -}}
{{- with lookup "v1" "Namespace" "" "kube-system" -}}
{{- $id = printf "cluster-%s" (.metadata.uid | trunc 8) -}}
{{- end -}}
{{- end -}}
{{- required "discovery.config.clusterID is empty: set it to the ID of this cluster, a DNS label unique among its peers (--set discovery.config.clusterID=rome)" $id -}}
{{- end -}}

{{/* The storage namespace if it has another name than the one that is protected everywhere, else nothing. */}}
{{- define "liqo.ownStorageNamespace" -}}
{{- if and .Values.storage.enabled (ne .Values.storage.storageNamespace "liqo-storage") }}{{ .Values.storage.storageNamespace }}{{ end -}}
{{- end -}}

{{/* Labels of an object: (dict "ctx" . "name" N "component" C "labels" extra). */}}
{{- define "liqo.labels" -}}
{{- $base := dict
  "app.kubernetes.io/name" .name
  "app.kubernetes.io/instance" (printf "%s-%s" .ctx.Release.Name .name)
  "app.kubernetes.io/component" .component
  "app.kubernetes.io/part-of" "liqo"
  "app.kubernetes.io/managed-by" .ctx.Release.Service
  "app.kubernetes.io/version" (.ctx.Values.tag | default .ctx.Chart.AppVersion | replace "+" "_" | replace ":" "_" | trunc 63 | trimSuffix "-" | trimSuffix "_" | trimSuffix ".")
  "helm.sh/chart" (printf "%s-%s" .ctx.Chart.Name .ctx.Chart.Version | replace "+" "_" | trunc 63) -}}
{{- toYaml (mergeOverwrite (dict) (.ctx.Values.common.globalLabels | default dict) (.labels | default dict) $base) -}}
{{- end -}}

{{/* Labels that select the pods of a component; they never change during the life of an installation. */}}
{{- define "liqo.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: liqo
{{- end -}}

{{/* Metadata of an object in full: (dict "ctx" . "object" object-name "name" N "component" C "labels" extra "annotations" extra "cluster" true). */}}
{{- define "liqo.metadata" -}}
name: {{ .object }}
{{- if not .cluster }}
namespace: {{ .ctx.Release.Namespace }}
{{- end }}
labels:
  {{- include "liqo.labels" . | nindent 2 }}
{{- with mergeOverwrite (dict) (.ctx.Values.common.globalAnnotations | default dict) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Image of a component: (dict "ctx" . "image" .Values.x.image). */}}
{{- define "liqo.image" -}}
{{- $version := .image.version | default .ctx.Values.tag | default .ctx.Chart.AppVersion -}}
{{- $name := .image.name -}}
{{- with .ctx.Values.registry -}}
{{- $name = printf "%s/%s" . (base $name) -}}
{{- end -}}
{{- if hasPrefix "sha256:" $version -}}
{{- printf "%s@%s" $name $version -}}
{{- else -}}
{{- printf "%s:%s" $name $version -}}
{{- end -}}
{{- end -}}

{{/*
Where the pods of a component run, with what rank, and how their images are pulled: (dict "ctx" . "pod" .Values.x.pod "selector" (dict "name" N "component" C)
"replicas" n). With several replicas a selector spreads them.
*/}}
{{- define "liqo.placement" -}}
{{- $common := .ctx.Values.common -}}
{{- with .pod.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .ctx.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
nodeSelector:
  {{- toYaml (mergeOverwrite (dict "kubernetes.io/os" "linux") ($common.nodeSelector | default dict) (.pod.nodeSelector | default dict)) | nindent 2 }}
{{- with concat ($common.tolerations | default list) (.pod.tolerations | default list) }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $affinity := .pod.affinity | default $common.affinity | default dict -}}
{{- if gt (int .replicas) 1 }}
  {{- /* Of several topologySpreadConstraints a scheduler obeys none where nodes lack one of the labels: most clusters have no zones. */}}
  {{- $same := dict "matchLabels" (include "liqo.selector" .selector | fromYaml) -}}
  {{- $apart := list -}}
  {{- range $key, $weight := dict "kubernetes.io/hostname" 100 "topology.kubernetes.io/zone" 50 -}}
    {{- $apart = append $apart (dict "weight" $weight "podAffinityTerm" (dict "topologyKey" $key "labelSelector" $same)) -}}
  {{- end -}}
  {{- $affinity = merge (dict) $affinity (dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $apart)) -}}
{{- end }}
affinity:
  {{- include "liqo.affinity" $affinity | nindent 2 }}
{{- end -}}

{{/* An affinity that keeps off the nodes that are other clusters, too. */}}
{{- define "liqo.affinity" -}}
{{- $affinity := deepCopy (. | default dict) -}}
{{- $node := $affinity.nodeAffinity | default dict -}}
{{- $required := $node.requiredDuringSchedulingIgnoredDuringExecution | default dict -}}
{{- $real := dict "key" "liqo.io/type" "operator" "NotIn" "values" (list "virtual-node") -}}
{{- $terms := list -}}
{{- range $required.nodeSelectorTerms | default (list (dict)) -}}
{{- $terms = append $terms (set . "matchExpressions" (append (.matchExpressions | default list) $real | uniq)) -}}
{{- end -}}
{{- $required = set $required "nodeSelectorTerms" $terms -}}
{{- toYaml (set $affinity "nodeAffinity" (set $node "requiredDuringSchedulingIgnoredDuringExecution" $required)) -}}
{{- end -}}

{{/* Keeps nodes that are emptied from taking the last one of several replicas: (dict "ctx" . "id" metadata "selector" S "replicas" n). */}}
{{- define "liqo.disruption" -}}
{{- if gt (int .replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "liqo.metadata" .id | nindent 2 }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "liqo.selector" .selector | nindent 6 }}
{{- end }}
{{- end -}}

{{/* The user of pods that need no certain one. OpenShift gives each namespace users of its own. */}}
{{- define "liqo.user" -}}
runAsNonRoot: true
{{- if not .Values.openshiftConfig.enabled }}
runAsUser: 65532
runAsGroup: 65532
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{/* The right to use SecurityContextConstraints, which only OpenShift has: (dict "ctx" . "names" list). */}}
{{- define "liqo.constraints" -}}
{{- if and .ctx.Values.openshiftConfig.enabled .names -}}
- apiGroups: [security.openshift.io]
  resources: [securitycontextconstraints]
  resourceNames: {{ toJson .names }}
  verbs: [use]
{{- end -}}
{{- end -}}

{{/* A map as k=v,k=v in the order of its keys. */}}
{{- define "liqo.pairs" -}}
{{- $pairs := list -}}
{{- range $k := keys . | sortAlpha -}}
{{- $pairs = append $pairs (printf "%s=%v" $k (get $ $k)) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{/* A list of classes as a,b:default. */}}
{{- define "liqo.classes" -}}
{{- $classes := list -}}
{{- range . -}}
{{- $classes = append $classes (printf "%s%s" .name (ternary ":default" "" (.default | default false))) -}}
{{- end -}}
{{- join "," $classes -}}
{{- end -}}

{{/* The flags about the checks of the API servers of peers, separated by spaces. Programs of older releases do not know them, so those with their defaults are left out. */}}
{{- define "liqo.peerCheck" -}}
{{- $values := .Values.peerCheck -}}
{{- range $name, $default := dict "interval" "10s" "timeout" "5s" "failures" "3" -}}
{{- $value := toString (get $values $name) -}}
{{- if and $value (ne $value $default) }} --peer-check-{{ $name }}={{ $value }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* Not empty if the network between clusters is ours: it is wanted, and not left to somebody else. */}}
{{- define "liqo.network" -}}
{{- $networking := .Values.networking | default dict -}}
{{- if and $networking.enabled (ne (toString $networking.internal) "false") -}}true{{- end -}}
{{- end -}}

{{/* Rules for what the plan of a host's network is made from: all of it is read, none of it secret. */}}
{{- define "liqo.networkFacts" -}}
- apiGroups: [""]
  resources: [nodes, pods]
  verbs: [get, list, watch]
- apiGroups: [ipam.liqo.io]
  resources: [networks, ips]
  verbs: [get, list, watch]
- apiGroups: [networking.liqo.io]
  resources: [configurations, connections, gatewayservers, gatewayclients, publickeies]
  verbs: [get, list, watch]
{{- end -}}

{{/* Not empty if something in a value is neither empty, false nor 0. */}}
{{- define "liqo.asks" -}}
{{- if kindIs "map" . -}}{{- range . -}}{{- include "liqo.asks" . -}}{{- end -}}{{- else if . -}}true{{- end -}}
{{- end -}}

{{- /* Whether a request in a namespace of a consumer is the consumer's (CEL). Its identities are of a group that is called like its cluster. Who may act as one of its users, as a
ServiceAccount or a user of AWS may, can leave the group out: so the names of its users count, too. Those of virtual kubelets end as the namespace says. */ -}}
{{- define "liqo.isConsumer" -}}
(namespaceObject.metadata.labels['liqo.io/remote-cluster-id'] in request.userInfo.?groups.orValue([]) ||
['', 'liqo.io:'].exists(prefix, request.userInfo.username == prefix + namespaceObject.metadata.labels['liqo.io/remote-cluster-id']) ||
namespaceObject.metadata.?annotations[?'offloading.liqo.io/consumer-users'].orValue('') != '' &&
request.userInfo.username.endsWith(namespaceObject.metadata.annotations['offloading.liqo.io/consumer-users']))
{{- end }}
