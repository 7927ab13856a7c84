# Prints one checksum over the tree of $1, and its number of entries. The checksum covers contents, types and modes, owners,
# times, targets of links, and which names are the same file. It ignores the size of folders, which depends on the file system.
set -eu
set -o pipefail
export LC_ALL=C
cd "$1"

list() { find . -mindepth 1 -path ./lost+found -prune -o "$@" -print0 | sort -z; }

{
  list | xargs -0r stat -c '%f %u:%g %y %N'
  list -type f | xargs -0r stat -c '%s %h %n'
  list -type f | xargs -0r sha256sum
  list -type f -links +1 | xargs -0r stat -c '%i %n' |
    awk '{ inode = $1; sub(/^[0-9]+ /, ""); if (!(inode in first)) first[inode] = $0; print first[inode] " = " $0 }'
} | sha256sum | cut -d ' ' -f 1
find . -mindepth 1 -path ./lost+found -prune -o -print | wc -l
