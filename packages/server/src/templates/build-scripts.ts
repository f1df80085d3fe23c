import { basename } from 'node:path'
import type { Script } from './run-step.ts'
import type { TemplateDescription } from './templates.ts'

export interface BuildPrograms {
  /** Prints the installed packages; see `parseMaterials`. */
  readonly materials: string
  /** Where pip writes its report, which `materials` reads. */
  readonly pipReport: string
}

const APT = 'apt-get --yes --no-install-recommends -o DPkg::Lock::Timeout=60'
/** The package lists are missing, or as old as the base template. */
const UPDATE = 'apt-get update'
const WHEELS = '/tmp/dormouse-wheels'
const TIDY = `
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/debconf/*-old
for packages in /usr/local/lib/python3*/dist-packages; do
  if [ -d "$packages" ]; then python3 -m compileall -q "$packages" || true; fi
done
`

/** The scripts of a description, in order. */
export function buildScripts(
  description: TemplateDescription,
  programs: BuildPrograms,
  onMaterials: (listing: string) => void,
): Script[] {
  const { packages, pip, commands, uploads, wheels = [] } = description
  const count = commands.length
  return [
    ...(uploads === undefined ? [] : [{ title: 'copying archives', text: 'true', uploads }]),
    ...(packages.length === 0 ? [] : [installPackages(packages)]),
    ...(pip.length === 0 ? [] : [installPip(pip, programs)]),
    ...commands.map((command, index) => ({
      title: `command ${index + 1} of ${count}`,
      shown: firstLine(command),
      text: `set -e\n${command}`,
    })),
    ...(wheels.length === 0 ? [] : [installWheels(wheels, programs)]),
    {
      title: 'listing packages',
      text: `exec python3 -I -c ${quote(programs.materials)}`,
      onOutput: onMaterials,
    },
    { title: 'tidying up', text: `rm -f ${quote(programs.pipReport)}\n${TIDY}` },
  ]
}

function installPackages(packages: readonly string[]): Script {
  return {
    title: 'installing packages',
    text: `set -eu\n${UPDATE}\n${APT} install -- ${packages.map(quote).join(' ')}\n`,
  }
}

function installPip(requirements: readonly string[], { pipReport }: BuildPrograms): Script {
  const install = `pip install --no-cache-dir --root-user-action ignore --report ${quote(pipReport)}`
  return {
    title: 'installing Python packages',
    text: `set -eu
if ! command -v pip >/dev/null; then ${UPDATE}; ${APT} install python3-pip; fi
${install} -- ${requirements.map(quote).join(' ')}
`,
  }
}

function installWheels(wheels: readonly string[], { pipReport }: BuildPrograms): Script {
  const uploads = wheels.map((file) => ({ file, path: `${WHEELS}/${basename(file)}` }))
  const install = `python3 -m pip install --no-index --no-deps --root-user-action ignore --report ${quote(pipReport)}`
  return {
    title: 'installing wheels',
    text: `set -eu\n${install} -- ${uploads.map(({ path }) => quote(path)).join(' ')}\nrm -r ${WHEELS}\n`,
    uploads,
  }
}

function firstLine(command: string): string {
  const [line = ''] = command.trim().split('\n')
  return line.length <= 120 ? line : `${line.slice(0, 119)}…`
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
