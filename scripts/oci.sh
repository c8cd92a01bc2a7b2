#!/usr/bin/env bash
# Makes an OCI image (image-spec 1.1) of a static program: one layer with the program, a user and the certificates that this machine
# trusts. Without a container engine; the same input gives the same bytes.
#   oci.sh PROGRAM ARCHITECTURE VERSION OUTPUT.tar     ARCHITECTURE as in Go: amd64, arm64
# Use it:  podman load -i OUTPUT.tar, docker load -i OUTPUT.tar (25 or newer), skopeo copy oci-archive:OUTPUT.tar ...
set -eu
# The user of the image must be able to read and execute its files.
umask 022
program=$1 architecture=$2 version=$3 out=$(realpath -m "$4")
epoch=${SOURCE_DATE_EPOCH:-$(date +%s)}
# No privileges are needed: the user of distroless images.
user=65532
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root layout=$work/layout
mkdir -p "$layout/blobs/sha256" "$root/etc/ssl/certs" "$root/usr/bin" "$root/tmp" "$root/var/lib/longfat-agent"

install -m 755 "$program" "$root/usr/bin/longfat"
echo "longfat:x:$user:$user::/var/lib/longfat-agent:/usr/bin/longfat" >"$root/etc/passwd"
echo "longfat:x:$user:" >"$root/etc/group"
# The certificates are needed for webhooks by https.
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs"
chmod 1777 "$root/tmp"
chmod 700 "$root/var/lib/longfat-agent"

pack() { tar --sort=name --mtime="@$epoch" --numeric-owner --format=posix --pax-option=delete=atime,delete=ctime "$@"; }
# The state directory belongs to the user, so that a new volume does too.
pack -C "$root" --owner=0 --group=0 -cf "$work/layer.tar" etc tmp usr
pack -C "$root" --owner=$user --group=$user -rf "$work/layer.tar" var/lib/longfat-agent
gzip -9n <"$work/layer.tar" >"$work/layer.gz"

# Stores a file under its hash, and prints its descriptor.
blob() {
    local file=$1 type=$2 more=${3:-} hash
    hash=$(sha256sum "$file" | cut -d' ' -f1)
    cp "$file" "$layout/blobs/sha256/$hash"
    printf '{"mediaType":"%s","digest":"sha256:%s","size":%d%s}' "$type" "$hash" "$(stat -c %s "$file")" "$more"
}

layer=$(blob "$work/layer.gz" application/vnd.oci.image.layer.v1.tar+gzip)
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
cat >"$work/config" <<END
{"created":"$created","architecture":"$architecture","os":"linux",
 "config":{"User":"$user:$user","Entrypoint":["/usr/bin/longfat"],"Cmd":["agent","run"],
  "Env":["PATH=/usr/bin"],"WorkingDir":"/var/lib/longfat-agent","Volumes":{"/var/lib/longfat-agent":{}},
  "ExposedPorts":{"4862/tcp":{},"4863/tcp":{}},"StopSignal":"SIGTERM",
  "Labels":{"org.opencontainers.image.title":"longfat","org.opencontainers.image.version":"$version",
   "org.opencontainers.image.licenses":"MIT OR Apache-2.0"}},
 "rootfs":{"type":"layers","diff_ids":["sha256:$(sha256sum "$work/layer.tar" | cut -d' ' -f1)"]},
 "history":[{"created":"$created","created_by":"scripts/oci.sh"}]}
END
config=$(blob "$work/config" application/vnd.oci.image.config.v1+json)
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":%s,"layers":[%s]}' \
    "$config" "$layer" >"$work/manifest"
manifest=$(blob "$work/manifest" application/vnd.oci.image.manifest.v1+json \
    ",\"platform\":{\"architecture\":\"$architecture\",\"os\":\"linux\"},\"annotations\":{\"org.opencontainers.image.ref.name\":\"$version\",\"io.containerd.image.name\":\"localhost/longfat:$version\"}")
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$manifest" >"$layout/index.json"
printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
pack -C "$layout" --owner=0 --group=0 -cf "$out" oci-layout index.json blobs
echo "oci: $out ($(stat -c %s "$out") bytes)" >&2
