import { type NpmRegistries, writeNpmrc } from './host-npm.ts'
import { type PipIndexes, writePipConf } from './host-pip.ts'

/** Where the host installs packages from. */
export interface HostRegistries {
  readonly pip: PipIndexes
  readonly npm: NpmRegistries
}

/** A file that every template gets. */
export interface SettingsFile {
  readonly path: string
  readonly content: string
  readonly isExecutable?: true
  /** Other paths at which programs look for it. They become links. */
  readonly links?: readonly string[]
}

/** `git commit` fails without a name. RFC 2606 reserves the domain, so mail to it reaches no person. */
const GITCONFIG = `[user]
\tname = Dormouse Sandbox
\temail = sandbox@dormouse.invalid
[init]
\tdefaultBranch = main
`

/** For programs that start with an empty environment, such as `su -`. The agent sets it for all others. */
const ENVIRONMENT = 'PYTHONDONTWRITEBYTECODE=1\n'

const APT_STAMP = '/var/lib/apt/dormouse-updated'
const APT_CONF = `APT::Update::Post-Invoke-Success { "touch ${APT_STAMP}"; };\n`
/** A template has no package lists: they are large, and out of date within days. */
const APT = `#!/bin/sh
# Runs the program of the same name in /usr/bin. First it fetches the package lists, if that program needs them
# and they are missing or older than a day. Only root can do that.
program=/usr/bin/\${0##*/}
needs_lists() {
  for word; do
    case $word in
      install|reinstall|satisfy|upgrade|full-upgrade|dist-upgrade|build-dep) return 0 ;;
      source|download|changelog|show|showsrc|search|policy|madison|depends|rdepends) return 0 ;;
      update|remove|purge|autoremove|autopurge|clean|autoclean|list) return 1 ;;
    esac
  done
  return 1
}
has_lists() {
  set -- /var/lib/apt/lists/*_Packages*
  [ -e "$1" ] && [ -n "$(find ${APT_STAMP} -mmin -1440 2>/dev/null)" ]
}
if [ "$(id -u)" = 0 ] && needs_lists "$@" && ! has_lists; then
  (
    # Two at once: the second one waits, because apt would fail.
    flock 9
    has_lists || /usr/bin/apt-get -qq update >&2
  ) 9</var/lib/apt
fi
# Packages must not ask questions when there is no terminal.
[ -t 0 ] || export DEBIAN_FRONTEND="\${DEBIAN_FRONTEND:-noninteractive}"
exec "$program" "$@"
`

/** Files for the user of a template, beyond the packages of its description. */
export function templateSettings({ pip, npm }: HostRegistries): SettingsFile[] {
  const npmrc = writeNpmrc(npm)
  return [
    { path: '/etc/pip.conf', content: writePipConf(pip) },
    { path: '/etc/gitconfig', content: GITCONFIG },
    { path: '/etc/environment', content: ENVIRONMENT },
    { path: '/etc/apt/apt.conf.d/90dormouse', content: APT_CONF },
    {
      path: '/usr/local/bin/apt-get',
      content: APT,
      isExecutable: true,
      links: ['/usr/local/bin/apt', '/usr/local/bin/apt-cache'],
    },
    // Debian's npm reads /etc; one that was installed in /usr or /usr/local reads the others.
    ...(npmrc === undefined
      ? []
      : [{ path: '/etc/npmrc', content: npmrc, links: ['/usr/etc/npmrc', '/usr/local/etc/npmrc'] }]),
  ]
}
