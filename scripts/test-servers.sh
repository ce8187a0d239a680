#!/usr/bin/env bash
# Installs the programs that tests start, into build/servers/: the servers moto, azurite,
# fake-gcs-server and nginx; HDF5's and netCDF's tools, NCO and CDO; Chromium, with what drives it;
# H5Web and zarrita, which read from our server.
#
# Installs each once. If one cannot be installed on this machine, says so; its tests are skipped.
# nginx and the tools come from Debian. The packages are unpacked, not installed: nginx must not start.
set -uo pipefail
cd "$(dirname "$0")/.."

azurite=3.37.0
fake_gcs_server=v1.56.1
playwright=1.65.1
axe=4.14.1
h5web=17.0.0
zarrita=0.7.5
esbuild=0.25.12

servers=$PWD/build/servers
mkdir -p "$servers/bin"
say() { echo "    $*" >&2; }

# install NAME VERSION COMMAND...: runs the command unless this version is there.
install() {
    local name=$1 version=$2 log=$servers/$1.log
    shift 2
    [[ $version == "$(cat "$servers/$name.version" 2>/dev/null)" ]] && return
    if "$@" >"$log" 2>&1; then
        echo "$version" >"$servers/$name.version"
        say "$name (${version%% *})"
    else
        say "not there: $name (${version%% *}), its tests are skipped:"
        tail -n 3 "$log" | sed 's/^/        /' >&2
    fi
}

install_moto() {
    rm -rf "$servers/moto"
    "$(scripts/find-python.sh newest)" -m venv "$servers/moto" || return
    "$servers/moto/bin/python" -m pip install --quiet --requirement requirements/servers.txt || return
    "$servers/moto/bin/moto_server" --help >/dev/null
}

install_azurite() {
    rm -rf "$servers/azurite"
    npm install --prefix "$servers/azurite" --no-audit --no-fund --omit=dev "azurite@$azurite" || return
    "$servers/azurite/node_modules/.bin/azurite-blob" --version
}

install_fake_gcs_server() {
    GOBIN=$servers/bin CGO_ENABLED=0 go install "github.com/fsouza/fake-gcs-server@$fake_gcs_server"
}

install_nginx() {
    if command -v nginx; then
        ln -sf "$(command -v nginx)" "$servers/bin/nginx"
        return
    fi
    local folder=$servers/nginx
    rm -rf "$folder"
    mkdir -p "$folder"
    # The package lists may be old or missing.
    (cd "$folder" && { apt-get download nginx || { apt-get update && apt-get download nginx; }; }) || return
    dpkg --extract "$folder"/nginx_*.deb "$folder" || return
    ln -sf ../nginx/usr/sbin/nginx "$servers/bin/nginx"
    "$servers/bin/nginx" -v
}

install_browser() {
    rm -rf "$servers/browser"
    npm install --prefix "$servers/browser" --no-audit --no-fund --omit=dev \
        "playwright-core@$playwright" "axe-core@$axe"
}

install_clients() {
    rm -rf "$servers/clients"
    npm install --prefix "$servers/clients" --no-audit --no-fund --omit=dev \
        "@h5web/app@$h5web" react@18.3.1 react-dom@18.3.1 "zarrita@$zarrita" "esbuild@$esbuild"
}

# install_tools PACKAGE TOOL...: unpacks a package of Debian, with the libraries that are not installed here.
install_tools() {
    local package=$1 folder=$servers/$1 tool program libraries
    shift
    rm -rf "$folder"
    mkdir -p "$folder/partial"
    local download=(apt-get install --yes --download-only --no-install-recommends
        -o "Dir::Cache::archives=$folder" -o Debug::NoLocking=1 "$package")
    command -v "$1" || "${download[@]}" || { apt-get update && "${download[@]}"; } || return
    for tool in "$folder"/*.deb; do
        [[ -e $tool ]] && { dpkg --extract "$tool" "$folder" || return; }
    done
    rm -f "$folder"/*.deb
    # Some libraries lie in folders of their own.
    libraries=$(find "$folder/usr/lib" -name '*.so*' -printf '%h\n' 2>/dev/null | sort -u | paste -sd:)
    for tool in "$@"; do
        program=$folder/usr/bin/$tool
        # Chromium's is a script that knows only where the package is installed.
        [[ -x $folder/usr/lib/$package/$tool ]] && program=$folder/usr/lib/$package/$tool
        rm -f "$servers/bin/$tool"
        if command -v "$tool"; then
            ln -s "$(command -v "$tool")" "$servers/bin/$tool"
            continue
        fi
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$program" \
            >"$servers/bin/$tool"
        chmod +x "$servers/bin/$tool"
    done
    # Each says its version, if all of its libraries are there.
    "$servers/bin/$1" --version || "$servers/bin/$1" 2>&1 | grep -qi version
}

moto=$(sed -n 's/^moto==//p' requirements/servers.txt)
install moto "$moto of $(cksum <requirements/servers.txt)" install_moto
install azurite "$azurite" install_azurite
install fake-gcs-server "$fake_gcs_server" install_fake_gcs_server
install nginx debian install_nginx
install hdf5-tools "debian (4 programs)" install_tools hdf5-tools h5dump h5stat h5repack h5diff
install netcdf-bin debian install_tools netcdf-bin ncdump nccopy
install nco "debian (3 programs)" install_tools nco ncks ncrcat ncatted
install cdo debian install_tools cdo cdo
install chromium debian install_tools chromium chromium
install browser "$playwright (axe $axe)" install_browser
install clients "$h5web (zarrita $zarrita)" install_clients
