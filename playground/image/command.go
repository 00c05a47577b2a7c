package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"liqo.io/playground/debian"
)

// Command returns the command "build-image", which writes one image archive from files of this machine and from packages of Debian. Arguments are
// HOSTPATH:/PATH[:MODE] for a file, MODE in octal, and link=/PATH:TARGET for a symbolic link. cache returns the folder that caches packages. Command
// calls report before each step that takes long.
func Command(cache func() (string, error), report func(format string, args ...any)) *cobra.Command {
	var spec Spec
	var output string
	var packages []string
	cmd := &cobra.Command{
		Use:   "build-image --name NAME --output FILE [flags] HOSTPATH:/PATH[:MODE]... link=/PATH:TARGET...",
		Short: "Write an OCI image archive made of files and of packages of Debian",
		Long: `Write an OCI image archive. Its files are the given ones, and those of packages of Debian with all that these depend on.

apt chooses the packages out of the index of this machine: apt-get update renews it. They are fetched once into the cache. Their maintainer scripts
do not run, so users and alternatives that these would make are files and links that you give. All files belong to root. Documentation and
translations are left out. If the archive is there already, made of the same packages and files, nothing is done.`,
		Example: `  playground build-image --name registry.local/echo:v1 --output echo.tar --entrypoint /echo --user 65532 bin/echo:/echo
  playground build-image --name registry.local/shell:v1 --output shell.tar --cmd /bin/sh /bin/busybox:/bin/busybox link=/bin/sh:/bin/busybox
  playground build-image --name registry.local/db:10.11 --output db.tar --package mariadb-server --user 999 passwd:/etc/passwd:644`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec := spec
			for _, arg := range args {
				file, err := parseFile(arg)
				if err != nil {
					return err
				}
				spec.Files = append(spec.Files, file)
			}
			cmd.SilenceUsage = true
			if len(packages) == 0 {
				return WriteFile(output, spec)
			}
			dir, err := cache()
			if err != nil {
				return err
			}
			return fromPackages(cmd.Context(), debian.Store{Dir: filepath.Join(dir, "debian"), Report: report}, packages, output, spec)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&spec.Name, "name", "", "full image reference, HOST/PATH:TAG")
	flags.StringVarP(&output, "output", "o", "", "archive to write")
	flags.StringSliceVar(&packages, "package", nil, "package of Debian, or NAME=VERSION; may be repeated")
	flags.StringSliceVar(&spec.Entrypoint, "entrypoint", nil, "program and its first arguments, separated by commas")
	flags.StringSliceVar(&spec.Cmd, "cmd", nil, "default arguments, separated by commas")
	flags.StringArrayVar(&spec.Env, "env", nil, "NAME=value, may be repeated")
	flags.StringVar(&spec.User, "user", "", "UID, UID:GID or name (default root)")
	flags.StringVar(&spec.Architecture, "architecture", "", "GOARCH value (default this machine's)")
	for _, name := range []string{"name", "output"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined a few lines above
		}
	}
	return cmd
}

// WriteFile writes the image to a file atomically.
func WriteFile(name string, spec Spec) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("creating image archive %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := errors.Join(Write(file, spec), file.Chmod(0o644), file.Close()); err != nil {
		return fmt.Errorf("writing image archive %s: %w", name, err)
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return fmt.Errorf("placing image archive %s: %w", name, err)
	}
	return nil
}

// parseFile parses one file argument of the command.
func parseFile(arg string) (File, error) {
	if link, ok := strings.CutPrefix(arg, "link="); ok {
		name, target, found := strings.Cut(link, ":")
		if !found || target == "" {
			return File{}, fmt.Errorf("reading argument %q: want link=/PATH:TARGET", arg)
		}
		return File{Path: name, Link: target}, nil
	}
	parts := strings.Split(arg, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return File{}, fmt.Errorf("reading argument %q: want HOSTPATH:/PATH[:MODE]", arg)
	}
	file := File{Source: parts[0], Path: parts[1]}
	if len(parts) == 3 {
		mode, err := strconv.ParseUint(parts[2], 8, 9)
		if err != nil || mode == 0 {
			return File{}, fmt.Errorf("reading argument %q: mode %q is not octal permission bits", arg, parts[2])
		}
		file.Mode = fs.FileMode(mode)
	}
	return file, nil
}
