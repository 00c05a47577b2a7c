package cloud

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"liqo.io/liqo/internal/install"
)

// EKS identifies a cluster of Amazon Elastic Kubernetes Service.
type EKS struct{ Region, Name string }

// Ask reads the facts about the cluster from AWS. It needs the permissions eks:DescribeCluster and ec2:DescribeVpcs, and uses the
// configuration of the aws CLI.
func (e EKS) Ask(ctx context.Context) (install.Cloud, error) {
	settings, err := config.LoadDefaultConfig(ctx, config.WithRegion(e.Region))
	if err != nil {
		return install.Cloud{}, fmt.Errorf("reading the configuration of the aws CLI: %w", err)
	}
	return e.ask(ctx, settings, fmt.Sprintf("https://ec2.%s.%s/", e.Region, domain(e.Region)))
}

// domain returns the domain of the AWS partition of a region.
func domain(region string) string {
	if strings.HasPrefix(region, "cn-") {
		return "amazonaws.com.cn"
	}
	return "amazonaws.com"
}

func (e EKS) ask(ctx context.Context, settings aws.Config, ec2 string) (install.Cloud, error) {
	described, err := eks.NewFromConfig(settings).DescribeCluster(ctx, &eks.DescribeClusterInput{Name: &e.Name})
	if missing := (*types.ResourceNotFoundException)(nil); errors.As(err, &missing) {
		return install.Cloud{}, fmt.Errorf("there is no EKS cluster %s in region %s: check --eks-cluster-name and --eks-cluster-region", e.Name, e.Region)
	}
	if err != nil {
		return install.Cloud{}, fmt.Errorf("reading EKS cluster %s in region %s from AWS: %w\nCheck that \"aws eks describe-cluster\" works: it needs the same credentials and the permission eks:DescribeCluster",
			e.Name, e.Region, err)
	}
	cluster := described.Cluster
	if cluster == nil || cluster.ResourcesVpcConfig == nil || aws.ToString(cluster.ResourcesVpcConfig.VpcId) == "" {
		return install.Cloud{}, fmt.Errorf("EKS cluster %s in region %s has no VPC yet: try again when it is active", e.Name, e.Region)
	}
	out := install.Cloud{Name: e.Name, APIServerURL: aws.ToString(cluster.Endpoint), Labels: location(e.Region)}
	if network := cluster.KubernetesNetworkConfig; network != nil {
		out.ServiceCIDR = aws.ToString(network.ServiceIpv4Cidr)
	}
	// Pods have addresses from any range of the VPC.
	vpc := aws.ToString(cluster.ResourcesVpcConfig.VpcId)
	if out.PodCIDRs, err = rangesOfVPC(ctx, settings, ec2, vpc); err != nil {
		return install.Cloud{}, fmt.Errorf("reading VPC %s of EKS cluster %s from AWS: %w\nCheck that \"aws ec2 describe-vpcs\" works, which needs the permission ec2:DescribeVpcs, or give the ranges with --pod-cidr", vpc, e.Name, err)
	}
	return out, nil
}

// vpcsResponse holds the address ranges in the response to DescribeVpcs (version 2016-11-15 of the EC2 API).
type vpcsResponse struct {
	VPCs []struct {
		CIDR         string `xml:"cidrBlock"`
		Associations []struct {
			CIDR  string `xml:"cidrBlock"`
			State string `xml:"cidrBlockState>state"`
		} `xml:"cidrBlockAssociationSet>item"`
	} `xml:"vpcSet>item"`
}

// rangesOfVPC sends a single request to EC2 and lets the library sign it. It avoids the EC2 client of the library: compiling that client
// takes as long as the rest of liqoctl, and two gigabytes of memory.
func rangesOfVPC(ctx context.Context, settings aws.Config, endpoint, vpc string) ([]string, error) {
	body := url.Values{"Action": {"DescribeVpcs"}, "Version": {"2016-11-15"}, "VpcId.1": {vpc}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	credentials, err := settings.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, credentials, request, hex.EncodeToString(sum[:]), "ec2", settings.Region, time.Now()); err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response.Status, text)
	}
	var answer vpcsResponse
	if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("reading the answer: %w", err)
	}
	var ranges []string
	for _, found := range answer.VPCs {
		ranges = append(ranges, found.CIDR)
		for _, association := range found.Associations {
			if association.State == "associated" {
				ranges = append(ranges, association.CIDR)
			}
		}
	}
	if ranges = compact(ranges...); len(ranges) == 0 {
		return nil, errors.New("the VPC has no IPv4 range")
	}
	return ranges, nil
}

// refusal returns the code and message of an EC2 error response, or else the HTTP status.
func refusal(status string, text []byte) error {
	var answer struct {
		Errors []struct {
			Code    string `xml:"Code"`
			Message string `xml:"Message"`
		} `xml:"Errors>Error"`
	}
	if err := xml.Unmarshal(text, &answer); err != nil || len(answer.Errors) == 0 {
		return errors.New(status)
	}
	return fmt.Errorf("%s: %s", answer.Errors[0].Code, answer.Errors[0].Message)
}
