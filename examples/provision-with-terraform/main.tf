# Two clusters that exist, rome and milan: Liqo in both, a peering, and a namespace of rome that extends to milan.

terraform {
  required_providers {
    liqo = {
      source = "liqo.internal/liqotech/liqo" # a host of no registry: see docs/guide/terraform.md
    }
    helm = {
      source  = "hashicorp/helm"
      version = ">= 3.0.0"
    }
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = ">= 2.0.0"
    }
  }
}

variable "rome_config" {
  description = "Kubeconfig of rome, the consumer."
  type        = string
  default     = "./liqo_kubeconf_rome"
}

variable "milan_config" {
  description = "Kubeconfig of milan, the provider."
  type        = string
  default     = "./liqo_kubeconf_milan"
}

variable "values" {
  description = "Further values of the chart, as YAML: the registry of the images, for example."
  type        = string
  default     = ""
}

provider "helm" {
  alias = "rome"
  kubernetes = {
    config_path = var.rome_config
  }
}

provider "helm" {
  alias = "milan"
  kubernetes = {
    config_path = var.milan_config
  }
}

provider "kubernetes" {
  alias       = "rome"
  config_path = var.rome_config
}

provider "liqo" {
  alias = "rome"
  kubernetes = {
    config_path = var.rome_config
  }
}

provider "liqo" {
  alias = "milan"
  kubernetes = {
    config_path = var.milan_config
  }
}

resource "helm_release" "install_liqo_rome" {
  provider = helm.rome

  name             = "liqo"
  chart            = "${path.module}/../../charts/liqo"
  namespace        = "liqo"
  create_namespace = true
  values           = [var.values]

  set = [{
    name  = "discovery.config.clusterID"
    value = "rome"
  }]
}

resource "helm_release" "install_liqo_milan" {
  provider = helm.milan

  name             = "liqo"
  chart            = "${path.module}/../../charts/liqo"
  namespace        = "liqo"
  create_namespace = true
  values           = [var.values]

  set = [{
    name  = "discovery.config.clusterID"
    value = "milan"
  }]
}

# What rome needs to peer with milan.
resource "liqo_generate" "generate" {
  depends_on = [helm_release.install_liqo_milan]
  provider   = liqo.milan

  consumer_cluster_id = "rome"
}

resource "liqo_peer" "peer" {
  depends_on = [helm_release.install_liqo_rome]
  provider   = liqo.rome

  cluster_id      = liqo_generate.generate.cluster_id
  cluster_name    = liqo_generate.generate.cluster_name
  cluster_authurl = liqo_generate.generate.auth_ep
  cluster_token   = liqo_generate.generate.local_token
}

resource "kubernetes_namespace" "namespace" {
  provider = kubernetes.rome

  metadata {
    name = "liqo-demo"
  }

  lifecycle {
    ignore_changes = [metadata[0].labels, metadata[0].annotations] # those of Liqo
  }
}

# Without liqo_peer here, Terraform could end the peering before the offloading.
resource "liqo_offload" "offload" {
  depends_on = [
    helm_release.install_liqo_rome,
    kubernetes_namespace.namespace,
    liqo_peer.peer
  ]
  provider = liqo.rome

  namespace = "liqo-demo"
}
