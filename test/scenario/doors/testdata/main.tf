# A peering of rome with milan and a namespace of rome that extends to milan, in clusters that have Liqo and the namespace already.

terraform {
  required_providers {
    liqo = {
      source = "liqo.internal/liqotech/liqo"
    }
  }
}

variable "rome_config" { type = string }

variable "milan_config" { type = string }

variable "strategy" {
  type    = string
  default = "LocalAndRemote"
}

provider "liqo" {
  alias      = "rome"
  kubernetes = { config_path = var.rome_config }
}

provider "liqo" {
  alias      = "milan"
  kubernetes = { config_path = var.milan_config }
}

resource "liqo_generate" "generate" {
  provider            = liqo.milan
  consumer_cluster_id = "rome"
}

resource "liqo_peer" "peer" {
  provider        = liqo.rome
  cluster_id      = liqo_generate.generate.cluster_id
  cluster_name    = liqo_generate.generate.cluster_name
  cluster_authurl = liqo_generate.generate.auth_ep
  cluster_token   = liqo_generate.generate.local_token
}

resource "liqo_offload" "offload" {
  depends_on              = [liqo_peer.peer]
  provider                = liqo.rome
  namespace               = "terraform"
  pod_offloading_strategy = var.strategy
}
