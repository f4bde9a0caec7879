#!/bin/sh
# Debian packages of what `make install` lays out: pkc, libpkrt0 and libpkrt-dev, in $BUILD/deb. $VERSION is their version.
# DEBFULLNAME and DEBEMAIL name the maintainer, as for Debian's own tools; by default the author of the last commit. The part for MPI is left out: it would bind the
# packages to one MPI.
set -eu
umask 022
BUILD=$(realpath "$BUILD")
top=$BUILD/deb root=$BUILD/deb/root
architecture=$(dpkg --print-architecture)
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
email=${DEBEMAIL:-$(git log -1 --format=%ae 2>/dev/null || true)}
maintainer="${DEBFULLNAME:-pkc maintainers} <${email:-root@$(hostname)}>"
date=$(date -R -u ${SOURCE_DATE_EPOCH:+-d @"$SOURCE_DATE_EPOCH"})
year=$(date -u +%Y ${SOURCE_DATE_EPOCH:+-d @"$SOURCE_DATE_EPOCH"})
rm -rf "$top"
mkdir -p "$root"
${MAKE:-make} -s --no-print-directory install BUILD="$BUILD" PREFIX=/usr DESTDIR="$root" MPI_LIBRARY= >/dev/null

# take PACKAGE PATH ..: moves files below usr/ into the tree of a package
take() {
  package=$1
  shift
  for path; do
    for file in "$root"/usr/$path; do
      to=$top/$package/${file#"$root"/}
      mkdir -p "$(dirname "$to")"
      mv "$file" "$to"
    done
  done
}
take libpkrt0 lib/libpkrt.so.0
take libpkrt-dev include 'lib/*.a' lib/libpkrt.so lib/pkgconfig lib/cmake
take pkc bin lib/pkc share/bash-completion share/fish share/man share/pkc
mkdir -p "$top/pkc/usr/share/zsh"
mv "$root/usr/share/zsh/site-functions" "$top/pkc/usr/share/zsh/vendor-completions"
mkdir -p "$top/libpkrt-dev/usr/lib/$triplet"
mv "$top/libpkrt-dev/usr/lib/pkgconfig" "$top/libpkrt-dev/usr/lib/$triplet/"
chmod 644 "$top/libpkrt0/usr/lib/libpkrt.so.0"
left=$(find "$root" -type f)
[ -z "$left" ] || { echo "runtime/deb.sh puts these files into no package: $left" >&2; exit 1; }
gzip -9n "$top"/pkc/usr/share/man/man1/*.1
strip --strip-unneeded --remove-section=.comment "$top"/pkc/usr/bin/pkc "$top"/libpkrt0/usr/lib/libpkrt.so.0
strip --strip-debug --remove-section=.comment "$top"/libpkrt-dev/usr/lib/*.a

# What the programs of a package need of the system's libraries.
shared() {
  mkdir -p "$top/debian"
  printf 'Source: pkc\n\nPackage: %s\nArchitecture: any\n' "$1" >"$top/debian/control"
  (cd "$top" && dpkg-shlibdeps -O "$2" 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

# package NAME SECTION DEPENDS SUMMARY: what it is comes from standard input
package() {
  folder=$top/$1 documents=$top/$1/usr/share/doc/$1
  mkdir -p "$folder/DEBIAN" "$documents"
  printf '%s\n' "Package: $1" "Source: pkc" "Version: $VERSION" "Architecture: $architecture" "Maintainer: $maintainer" \
    "Installed-Size: $(du -sk "$folder/usr" | cut -f1)" "Depends: $3" "Section: $2" "Priority: optional" "Description: $4" >"$folder/DEBIAN/control"
  cat >>"$folder/DEBIAN/control"
  printf 'pkc (%s) unstable; urgency=medium\n\n  * docs/changes.md of the sources lists the changes.\n\n -- %s  %s\n' "$VERSION" "$maintainer" "$date" |
    gzip -9n >"$documents/changelog.gz"
  printf 'Copyright %s the maintainers of pkc.\n\nThe sources name no licence.\n' "$year" >"$documents/copyright"
  (cd "$folder" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
  chmod -R u=rwX,go=rX "$folder"
  dpkg-deb --root-owner-group -Zxz --build "$folder" "$top/${1}_${VERSION}_$architecture.deb" >/dev/null
  echo "  DEB   $top/${1}_${VERSION}_$architecture.deb"
}

mkdir -p "$top/libpkrt0/DEBIAN"
printf 'libpkrt 0 libpkrt0 (>= %s)\n' "$VERSION" >"$top/libpkrt0/DEBIAN/shlibs"
printf 'activate-noawait ldconfig\n' >"$top/libpkrt0/DEBIAN/triggers"
package libpkrt0 libs "$(shared libpkrt0 libpkrt0/usr/lib/libpkrt.so.0)" "runtime library of kernels compiled by pkc" <<END
 Threads, devices, copies and messages of compiled Pallas-style kernels.
END
package libpkrt-dev libdevel "libpkrt0 (= $VERSION), libc6-dev, libdlpack-dev, libsimde-dev" "development files of kernels compiled by pkc" <<END
 Headers and static libraries, which the C of kernels needs, and packages
 for pkg-config and CMake.
END
package pkc devel "$(shared pkc pkc/usr/bin/pkc), libpkrt-dev (= $VERSION), gcc | c-compiler" "compiler of Pallas-style kernels for CPUs" <<END
 Compiles kernels of blocks to C, checks and tests them, explains what it
 does, and shows what they would do on a TPU. It includes a language
 server for editors, completions for shells and a library of kernels.
END
rm -rf "$root" "$top/debian"
