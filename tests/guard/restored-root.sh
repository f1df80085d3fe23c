#!/bin/sh
# restored-root.sh DIR COMMAND...: runs a command in a copy of this root that has a /.dormouse/memory, as a burrow
# has. Call it in a mount namespace of its own (`unshare -m`); nothing of it is visible outside, and it ends with the
# command.
set -e
dir=$1
shift
mount -t tmpfs guard "$dir/root"
mkdir "$dir/root/upper" "$dir/root/work" "$dir/root/merged"
# xino: one device number for all of it, as a burrow has, whose layers are on one file system.
mount -t overlay -o "xino=on,lowerdir=/,upperdir=$dir/root/upper,workdir=$dir/root/work" overlay "$dir/root/merged"
cd "$dir/root/merged"
mkdir -p .dormouse/memory "./$dir/bin"
mount -t tmpfs memory .dormouse/memory
mount --bind "$dir/bin" "./$dir/bin"
mount --rbind /proc proc
mount --rbind /dev dev
exec chroot . "$@"
