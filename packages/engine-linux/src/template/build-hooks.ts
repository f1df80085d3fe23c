import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { RESOLVER } from '../network/addresses.ts'
import type { TemplateDescription } from './description.ts'
import { MATERIALS_PROGRAM } from './materials.ts'
import type { SettingsFile } from './template-settings.ts'

/** Prefix of lines in which the hooks report progress. Other output is for error messages. */
export const HOOK_MARK = 'dormouse: '

const EXCLUDED_EVERYWHERE = ['man', 'doc', 'info', 'locale'].map((name) => `/usr/share/${name}/*`)
/** Licences must stay with the files that they cover. */
const INCLUDED_EVERYWHERE = ['/usr/share/doc/*/copyright']

// mmdebstrap would filter its own list of excluded paths with a slow program; dpkg reads this file itself.
const EXCLUDE_PATHS = [
  'mkdir -p "$1/etc/dpkg/dpkg.cfg.d"',
  `cat > "$1/etc/dpkg/dpkg.cfg.d/dormouse" <<'END'`,
  ...EXCLUDED_EVERYWHERE.map((path) => `path-exclude=${path}`),
  ...INCLUDED_EVERYWHERE.map((path) => `path-include=${path}`),
  'END',
].join('\n')

// The base system was unpacked without dpkg. Packages that come next would compile their Python modules one by one, and
// those that the description deletes, too.
const AFTER_BASE = `
rm -rf /usr/share/man/* /usr/share/info/*.gz /usr/share/locale/*
find /usr/share/doc -mindepth 1 ! -type d ! -type l ! -path '/usr/share/doc/*/copyright' -delete
find /etc/alternatives -xtype l -name '*.gz' -delete
dpkg-divert --quiet --local --rename --divert /usr/bin/py3compile.later --add /usr/bin/py3compile
ln -s /bin/true /usr/bin/py3compile
`

const COMPILE = `
rm /usr/bin/py3compile
dpkg-divert --quiet --local --rename --remove /usr/bin/py3compile
# A module with a syntax error fails when it is imported, not here.
places='/usr/lib/python3/dist-packages /usr/local/lib/python3*/dist-packages /usr/share/python3'
find $places -name '*.py' -print0 2>/dev/null |
  xargs -0 -r -n 200 -P "$(nproc)" python3 -m compileall -q >/dev/null 2>&1 || true
`

const PREPARE = `
groupadd --gid 1000 user
useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash user
`

// mmdebstrap copies the hostname and resolver of the build host into the root. A template must not contain them.
const FINISH = `
echo sandbox > /etc/hostname
printf '127.0.0.1\\tlocalhost\\n127.0.0.1\\tsandbox\\n::1\\tlocalhost ip6-localhost ip6-loopback\\n' > /etc/hosts
rm -f /etc/resolv.conf
printf 'nameserver ${RESOLVER}\\noptions timeout:5 attempts:2\\n' > /etc/resolv.conf
# Manual pages are left out, but packages such as those of Java fail when they cannot link their own.
for section in 1 2 3 4 5 6 7 8; do mkdir -p /usr/share/man/man$section; done
# The first figure of a sandbox must not wait for a scan of all fonts.
warm='import importlib.util as u
if u.find_spec("matplotlib"): import matplotlib.font_manager'
python3 -c "$warm"
su user -s /bin/sh -c 'cd; exec python3 -c "$0"' "$warm"
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/log/*.log
`

export interface BuildHooks {
  /** Executables, which mmdebstrap calls with the root as argument: the root is empty. */
  readonly atStart: string
  /** The base system is installed. */
  readonly afterBase: string
  /** With all packages installed, in order. */
  readonly atEnd: string[]
  /** File that lists the packages once the hooks have run; `parseMaterials` reads it. */
  readonly materials: string
}

/** Writes one executable per step into `directory`. */
export async function writeBuildHooks(
  directory: string,
  description: TemplateDescription,
  settings: readonly SettingsFile[],
): Promise<BuildHooks> {
  const materials = join(directory, 'materials')
  const imports = ['IPython', ...description.preload].map((module) => `import ${module}`).join('; ')
  const steps: HookStep[] = [
    {
      doing: 'preparing users and settings',
      script: `set -eu${PREPARE}${settings.map(writeSettings).join('')}`,
    },
    ...description.commands.map((script, index) => ({
      doing: `command ${index + 1} of ${description.commands.length}`,
      script: `set -e\n${script}`,
    })),
    {
      doing: 'listing packages',
      script: `exec python3 -I -c ${quoteForShell(MATERIALS_PROGRAM)}`,
      output: materials,
    },
    { doing: 'compiling Python modules', script: `set -eu${COMPILE}` },
    { doing: 'warming caches', script: `set -eu${FINISH}` },
    { doing: 'importing what is preloaded', script: `exec python3 -c ${quoteForShell(imports)}` },
  ]
  const write = async (name: string, content: string) => {
    const path = join(directory, `hook-${name}`)
    await writeFile(path, content, { mode: 0o700 })
    return path
  }
  return {
    atStart: await write('start', `#!/bin/sh\nset -eu\n${EXCLUDE_PATHS}\n`),
    afterBase: await write('base', hookFile({ script: `set -eu${AFTER_BASE}` })),
    atEnd: await Promise.all(steps.map((step, at) => write(String(at).padStart(3, '0'), hookFile(step)))),
    materials,
  }
}

function writeSettings({ path, content, isExecutable, links = [] }: SettingsFile): string {
  const mode = isExecutable ? '755' : '644'
  return [
    `printf %s ${quoteForShell(content)} > ${path}\nchmod ${mode} ${path}\n`,
    ...links.map((link) => `mkdir -p ${dirname(link)}\nln -sf ${path} ${link}\n`),
  ].join('')
}

interface HookStep {
  /** Shown as progress. */
  readonly doing?: string
  readonly script: string
  /** Host file that receives its output. */
  readonly output?: string
}

function hookFile({ doing, script, output }: HookStep): string {
  const redirection = output === undefined ? '' : ` >${quoteForShell(output)}`
  const environment = 'HOME=/root USER=root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive'
  return [
    '#!/bin/sh',
    ...(doing === undefined ? [] : [`echo ${quoteForShell(HOOK_MARK + doing)}`]),
    `exec chroot "$1" /usr/bin/env ${environment} /bin/bash -c ${quoteForShell(script)} </dev/null${redirection}`,
    '',
  ].join('\n')
}

export function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
