import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { RESOLVER } from '../network/addresses.ts'
import type { TemplateDescription } from './description.ts'
import { MATERIALS_PROGRAM } from './materials.ts'
import type { SettingsFile } from './template-settings.ts'

/** Prefix of lines in which the hooks report progress. Other output is for error messages. */
export const HOOK_MARK = 'dormouse: '

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
for packages in /usr/local/lib/python3*/dist-packages; do
  if [ -d "$packages" ]; then python3 -m compileall -q "$packages" || true; fi
done
# The first figure of a sandbox must not wait for a scan of all fonts.
warm='import importlib.util as u
if u.find_spec("matplotlib"): import matplotlib.font_manager'
python3 -c "$warm"
su user -s /bin/sh -c 'cd; exec python3 -c "$0"' "$warm"
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/debconf/*-old /var/log/*.log
`

export interface BuildHooks {
  /** Executables, in order. mmdebstrap calls them with the root as argument. */
  readonly hooks: string[]
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
    { doing: 'warming caches', script: `set -eu${FINISH}` },
    { doing: 'importing what is preloaded', script: `exec python3 -c ${quoteForShell(imports)}` },
  ]
  const hooks = await Promise.all(
    steps.map(async (step, index) => {
      const path = join(directory, `hook-${String(index).padStart(3, '0')}`)
      await writeFile(path, hookFile(step), { mode: 0o700 })
      return path
    }),
  )
  return { hooks, materials }
}

function writeSettings({ path, content, isExecutable, links = [] }: SettingsFile): string {
  const mode = isExecutable ? '755' : '644'
  return [
    `printf %s ${quoteForShell(content)} > ${path}\nchmod ${mode} ${path}\n`,
    ...links.map((link) => `mkdir -p ${dirname(link)}\nln -sf ${path} ${link}\n`),
  ].join('')
}

interface HookStep {
  readonly doing: string
  readonly script: string
  /** Host file that receives its output. */
  readonly output?: string
}

function hookFile({ doing, script, output }: HookStep): string {
  const redirection = output === undefined ? '' : ` >${quoteForShell(output)}`
  const environment = 'HOME=/root USER=root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive'
  return [
    '#!/bin/sh',
    `echo ${quoteForShell(HOOK_MARK + doing)}`,
    `exec chroot "$1" /usr/bin/env ${environment} /bin/bash -c ${quoteForShell(script)} </dev/null${redirection}`,
    '',
  ].join('\n')
}

export function quoteForShell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
