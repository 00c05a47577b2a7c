package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// These expressions find, in an error of kube-apiserver, the policy or webhook that refused the request.
var (
	refusingPolicy  = regexp.MustCompile(`[Pp]olicy ['"]([^'"]+)['"] (?:with binding ['"][^'"]+['"] )?denied request`)
	refusingWebhook = regexp.MustCompile(`(?:admission|calling) webhook "([^"]+)"`)
	// demand finds the message of the policy or webhook itself.
	demand = regexp.MustCompile(`(?s)denied (?:the )?request: (.+)`)
)

// notEvaluated are the texts of refusals by policies and webhooks that can't decide about any object. An expression that "resulted in error" is not among them:
// it may fail for the plain object alone.
var notEvaluated = []string{"failed to configure", "failed calling webhook"}

// refuser is a policy or a webhook that refused a dry run.
type refuser struct {
	// name is the name of the policy or of the webhook. liqo means that the installation has it.
	name          string
	webhook, liqo bool
	// always means that it refuses every object. unasked means that it is a webhook that can't be called in a dry run.
	always, unasked bool
}

// refuserOf returns what refused a dry run. found is false if the refusal says nothing about other objects: it has another reason, such as a used-up quota,
// or is the decision of a webhook of Liqo.
func refuserOf(refusal string) (of refuser, found bool) {
	of.always = slices.ContainsFunc(notEvaluated, func(text string) bool { return strings.Contains(refusal, text) })
	if groups := refusingPolicy.FindStringSubmatch(refusal); groups != nil {
		of.name, of.liqo = groups[1], strings.HasPrefix(groups[1], "liqo-")
		return of, true
	}
	if groups := refusingWebhook.FindStringSubmatch(refusal); groups != nil {
		of.name, of.webhook, of.liqo = groups[1], true, strings.HasSuffix(groups[1], ".liqo.io")
		of.unasked = strings.Contains(refusal, "does not support dry run")
		return of, of.always || of.unasked || !of.liqo
	}
	return of, false
}

// text names a refuser in findings.
func (of refuser) text() string {
	if of.webhook {
		return "webhook " + of.name
	}
	return "policy " + of.name
}

// cure returns what an administrator of the cluster with the refuser has to do. Refusals of some objects may be intended, so none of the cures weakens a
// policy.
func (of *refused) cure(namespace string) string {
	const policies = "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -o yaml"
	const webhooks = "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml"
	switch {
	case of.webhook && of.liqo:
		return "kubectl -n " + namespace + " rollout restart deployment/liqo-controller-manager, which serves the webhook"
	case of.liqo:
		return "liqoctl upgrade, which writes the policies of this version: they need no parameters"
	case !of.always:
		return of.intended() + ". " + map[bool]string{true: webhooks, false: policies}[of.webhook] + " shows the " + of.text()
	case of.webhook:
		return webhooks + " names the Service of webhook " + of.name + ": see whether it runs, and whether its CA bundle is that of its certificate"
	}
	return policies + " shows which parameters policy " + of.name + " needs: create them, or correct the policy. " +
		"If they exist, restart the API servers of the cluster: they may have stopped to read that kind"
}

// intended returns the cure for a refusal that may be intended.
func (of *refused) intended() string {
	text := of.refusal
	if groups := demand.FindStringSubmatch(text); groups != nil {
		text = groups[1]
	}
	return "nothing, if this is intended; objects of consumers need: " + text
}

// admissions checks the replies to dry runs: whether the cluster admits the objects of its consumers in their remote namespaces, and whether its providers admit
// those of the cluster.
func admissions(r *report) {
	count := len(r.DryRuns)
	for _, of := range refusers(r.DryRuns) {
		r.about(partAdmission, "")
		if of.unasked {
			r.unasked(of, "")
			continue
		}
		level := Fail
		if !of.always && !of.liqo {
			level = Warn
		}
		finding := r.add(level, of.cure(r.Namespace), "in a dry run, %s refuses %s: %s", of.text(), of.objects(), of.refusal)
		finding.refuser, finding.fromManager = of.name, of.webhook && of.liqo
	}
	for i := range r.Accesses {
		a := &r.Accesses[i]
		count += len(a.DryRuns)
		for _, of := range refusers(a.DryRuns) {
			r.about(partRefusal, a.Peer)
			switch {
			case of.unasked:
				r.unasked(of, " of cluster "+a.Peer)
				continue
			case of.webhook && of.liqo:
				r.about(partSilence, a.Peer)
				what := "the controller manager of cluster %s does not respond: %s"
				if strings.Contains(of.refusal, "x509: ") {
					what = "the controller manager of cluster %s runs, and its webhook can't be called: %s"
				}
				r.fail(there(a.Peer), what, a.Peer, of.refusal)
				continue
			}
			level, cure := Fail, there(a.Peer)
			if !of.always {
				level, cure = Warn, of.intended()+"; or "+there(a.Peer)
			}
			r.add(level, cure, "in a dry run as %s in cluster %s, %s refuses %s: %s", a.Identity, a.Peer, of.text(), of.objects(), of.refusal).refuser = of.name
		}
	}
	r.about(partAdmission, "")
	for _, unchecked := range r.Unchecked {
		r.warn("run liqoctl doctor again as an administrator of the cluster, with more time (--timeout)", "not all dry runs could be made: %s", unchecked)
	}
	if count > 0 {
		r.healthy("%d dry runs, no policy and no webhook refuses the objects in remote namespaces", count)
	}
}

// unasked reports a webhook that can't be called in a dry run, so that its decision about the objects is unknown.
func (r *report) unasked(of *refused, where string) {
	r.warn("nothing, if webhook "+of.name+" admits such objects. kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations -o yaml shows it: "+
		"with sideEffects None or NoneOnDryRun, if that is true of it, doctor asks it", "%s%s does not support dry runs, so it is unknown whether it admits %s", of.text(), where, of.objects())
}

// there returns the cure for what only the administrator of a peer can find out.
func there(peer string) string {
	return "ask the administrator of cluster " + peer + " to run liqoctl doctor there"
}

// refused are the dry runs that one refuser refused.
type refused struct {
	refuser
	// refusal is the first of the texts.
	refusal string
	runs    []DryRun
}

// refusers returns what refused dry runs, in the order of the dry runs.
func refusers(runs []DryRun) (out []*refused) {
	for _, run := range runs {
		by, found := refuserOf(run.Refusal)
		if !found {
			continue
		}
		at := slices.IndexFunc(out, func(r *refused) bool { return r.refuser == by })
		if at < 0 {
			at, out = len(out), append(out, &refused{refuser: by, refusal: run.Refusal})
		}
		out[at].runs = append(out[at].runs, run)
	}
	return out
}

// objects names the refused objects, and shortens a long list.
func (of *refused) objects() string {
	var out []string
	for _, run := range of.runs {
		out = append(out, fmt.Sprintf("a %s in namespace %s", run.Kind, run.Namespace))
	}
	if len(out) > shownPods {
		out = append(out[:shownPods], "...")
	}
	return strings.Join(out, ", ")
}
