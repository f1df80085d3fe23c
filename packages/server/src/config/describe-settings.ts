import type { HostFacts } from './host-facts.ts'
import { listSettings, type NamedSetting } from './setting.ts'
import { ALL_SETTINGS, SECTIONS } from './settings.ts'

/** A flag of `dormouse up`. */
export interface ServerFlag {
  readonly flag: string
  readonly kind: 'value' | 'file' | 'switch'
  /** What help texts show behind the flag; empty for a switch. */
  readonly argument: string
  /** Empty when there is none. */
  readonly default: string
  readonly summary: string
}

/** Every flag of `dormouse up`, in the order of the settings. */
export function serverFlags(): ServerFlag[] {
  return ALL_SETTINGS.flatMap((named): ServerFlag[] => {
    const { kind, description } = named.setting
    const { flag, argument = '', summary } = description
    if (flag === undefined) return []
    if (kind === 'boolean') return [{ flag, kind: 'switch', argument, default: '', summary }]
    const text = defaultText(named).replaceAll('`', '')
    return [
      {
        flag,
        kind: kind === 'file' ? 'file' : 'value',
        argument,
        default: text === 'none' ? '' : text,
        summary,
      },
    ]
  })
}

const BLOCK = /(<!-- settings: (\w+) -->\n)[\s\S]*?(<!-- end of settings -->)/g

/** Replaces the tables between `<!-- settings: SECTION -->` and `<!-- end of settings -->` in docs/configuration.md. */
export function fillSettingsTables(markdown: string): string {
  const unused = new Set(Object.keys(SECTIONS))
  const filled = markdown.replace(BLOCK, (_block, begin: string, name: string, end: string) => {
    const section = Object.entries(SECTIONS).find(([key]) => key === name)?.[1]
    if (section === undefined) throw new Error(`There is no section of settings "${name}"`)
    unused.delete(name)
    return `${begin}\n${formatTable(listSettings(section))}\n${end}`
  })
  if (unused.size > 0) throw new Error(`There is no block for the settings ${[...unused].join(', ')}`)
  return filled
}

function formatTable(settings: readonly NamedSetting[]): string {
  const rows = settings.map((named) => {
    const { env, flag, summary, details } = named.setting.description
    const meaning = details === undefined ? summary : `${summary} ${details}`
    return `| \`${named.path.join('.')}\` | ${defaultText(named)} | ${code(env)} | ${code(flag)} | ${meaning} |\n`
  })
  return `| setting | default | environment variable | flag | meaning |\n|---|---|---|---|---|\n${rows.join('')}`
}

function code(text: string | undefined): string {
  return text === undefined ? '' : `\`${text}\``
}

/** Two hosts that differ in everything: a default that differs between them must be described in words. */
const HOSTS: readonly HostFacts[] = [
  { cpus: 2, memoryBytes: 8e9, diskBytes: 100e9, files: 6e6, pids: 32_768 },
  { cpus: 8, memoryBytes: 32e9, diskBytes: 300e9, files: 20e6, pids: 4_194_304 },
]

function defaultText({ path, setting }: NamedSetting): string {
  if (setting.description.defaultText !== undefined) return setting.description.defaultText
  const [value, ...others] = HOSTS.map((host) => setting.defaultFor(host))
  if (Array.isArray(value) ? value.length === 0 : value === undefined) return 'none'
  if (others.some((other) => other !== value)) throw new Error(`${path.join('.')} needs a defaultText`)
  return `\`${decimal(value)}\``
}

/** 0.0000045, not 4.5e-6. */
function decimal(value: unknown): string {
  return typeof value === 'number' && value > 0 && value < 1
    ? value.toFixed(9).replace(/0+$/, '')
    : String(value)
}
