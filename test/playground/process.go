package playground

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// Processes returns the process IDs, as this machine sees them, of the containers of a pod in a cluster of the playground. The processes
// of a node are ordinary processes of the machine; the kubelet puts those of a pod into a control group named after the pod's UID.
func Processes(pod *corev1.Pod) ([]int, error) {
	found, err := inGroup("/pod" + string(pod.UID) + "/")
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("pod %s/%s has no process", pod.Namespace, pod.Name)
	}
	return found, err
}

// Container returns the process IDs of one container of a pod; its first process comes first.
func Container(pod *corev1.Pod, name string) ([]int, error) {
	for _, status := range pod.Status.ContainerStatuses {
		_, id, _ := strings.Cut(status.ContainerID, "://")
		if status.Name != name || id == "" {
			continue
		}
		found, err := inGroup("/" + id)
		slices.Sort(found)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("container %s of pod %s/%s has no process", name, pod.Namespace, pod.Name)
		}
		return found, err
	}
	return nil, fmt.Errorf("pod %s/%s has no container %s that has started", pod.Namespace, pod.Name, name)
}

// inGroup returns the processes whose control group has part in its path.
func inGroup(part string) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, file := range files {
		groups, err := os.ReadFile(file)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading control groups: %w", err)
		}
		if !bytes.Contains(groups, []byte(part)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		name, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "comm"))
		if gone(err) || strings.TrimSpace(string(name)) == "pause" {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, pid)
	}
	return found, nil
}

// gone reports whether err means that a process ended while its files were read.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// Kill ends processes with SIGKILL, so that they cannot shut down gracefully.
func Kill(pids ...int) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing process %d: %w", pid, err)
		}
	}
	return nil
}

// Usage is the resource usage of processes: CPU time since their start, and current memory.
type Usage struct {
	// CPU is in seconds since the processes started.
	CPU float64 `json:"cpuSeconds"`
	// Resident memory is in bytes.
	Resident uint64 `json:"residentBytes"`
}

// ticks is the kernel's USER_HZ, which is 100 on every architecture that Go runs Linux on.
const ticks = 100

// Measure returns the usage of a pod's processes.
func Measure(pod *corev1.Pod) (Usage, error) {
	pids, err := Processes(pod)
	if err != nil {
		return Usage{}, err
	}
	usage, err := MeasureProcesses(pids...)
	if err != nil {
		return Usage{}, fmt.Errorf("measuring pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return usage, nil
}

// MeasureNode returns the CPU seconds that the processes of a node have used so far, by program name. It does not include processes that have ended.
func MeasureNode(node string) (map[string]float64, error) {
	pids, err := inGroup("/" + node)
	if err != nil {
		return nil, err
	}
	total := map[string]float64{}
	for _, pid := range pids {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil {
			var used Usage
			used, err = MeasureProcesses(pid)
			total[strings.TrimSpace(string(name))] += used.CPU
		}
		if err != nil && !gone(err) {
			return nil, fmt.Errorf("measuring node %s: %w", node, err)
		}
	}
	return total, nil
}

// MeasureProcesses returns the usage of several processes together. File-backed memory, mostly that of the programs, counts once: the maximum over
// the processes.
func MeasureProcesses(pids ...int) (Usage, error) {
	var total Usage
	var mapped uint64
	for _, pid := range pids {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return Usage{}, err
		}
		// The name is in parentheses and may contain any character; proc(5) counts the fields after it from 3.
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		const utime, stime = 14 - 3, 15 - 3
		for _, i := range []int{utime, stime} {
			n, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return Usage{}, err
			}
			total.CPU += n / ticks
		}
		own, file, err := resident(pid)
		if err != nil {
			return Usage{}, err
		}
		total.Resident += own
		mapped = max(mapped, file)
	}
	total.Resident += mapped
	return total, nil
}

// resident returns the resident memory of a process in bytes: its own memory, and memory mapped from files.
func resident(pid int) (own, file uint64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*uint64{"RssAnon": &own, "RssShmem": &own, "RssFile": &file}[name]
		if into == nil {
			continue
		}
		kilobytes, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
		}
		*into += kilobytes << 10
	}
	return own, file, nil
}
