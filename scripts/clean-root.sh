# Functions of scripts that need a clean Debian root; a script sources this file.

# Makes a clean root in an empty directory: the release of this machine, from the mirror that apt uses. Needs root.
#   make_clean_root DIRECTORY
make_clean_root() {
    local root=$1 mirror suite
    [ "$(id -u)" = 0 ] || { echo "$(basename "$0" .sh): root is needed to make a clean Debian root" >&2; return 4; }
    command -v debootstrap >/dev/null || apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | head -1)
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail "$root.log" >&2; rm -f "$root.log"; return 1; }
    rm -f "$root.log"
}
