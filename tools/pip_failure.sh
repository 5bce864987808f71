# pip_failure LOG: the one line that says why pip failed.
pip_failure() {
  if grep -qE 'connection broken|from versions: none' "$1"; then
    echo "the package index could not be reached: is there a network, does it need a proxy (https_proxy)? (all of it: $1)"
  else
    echo "$(grep -m1 '^ERROR' "$1" || tail -n 1 "$1") (all of it: $1)"
  fi
}
