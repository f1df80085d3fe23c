import type { SandboxInfo } from 'dormouse'
import { type Look, lookOf } from '../parts/state-badge.tsx'

export const SORTS = {
  name: 'Name',
  state: 'State',
  template: 'Template',
  memory: 'Memory',
  active: 'Last active',
  created: 'Created',
} as const
export type Sort = keyof typeof SORTS

export interface Selection {
  readonly look: Look | 'all'
  readonly text: string
  readonly sort: Sort
  readonly isDescending: boolean
}

const LOOKS: readonly Look[] = ['failed', 'waking', 'running', 'frozen', 'stored']

/** The rows that the filters leave, in order. */
export function selectRows(
  all: readonly SandboxInfo[],
  { look, text, sort, isDescending }: Selection,
  memoryOf: (id: string) => number | undefined,
): SandboxInfo[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const rows = all.filter((info) => {
    if (look !== 'all' && lookOf(info) !== look) return false
    return words.length === 0 || isAbout(info, words)
  })
  const value = (info: SandboxInfo): string | number => {
    if (sort === 'name') return (info.name ?? `~${info.id}`).toLowerCase()
    if (sort === 'state') return LOOKS.indexOf(lookOf(info))
    if (sort === 'template') return info.template
    if (sort === 'memory') return memoryOf(info.id) ?? -1
    return sort === 'active' ? info.lastActiveAt : info.createdAt
  }
  const sign = isDescending ? -1 : 1
  const keyed = rows.map((info) => ({ info, key: value(info) }))
  keyed.sort((one, other) => {
    if (one.key === other.key) return one.info.id < other.info.id ? -1 : 1
    return one.key < other.key ? -sign : sign
  })
  return keyed.map(({ info }) => info)
}

function isAbout(info: SandboxInfo, words: readonly string[]): boolean {
  const { id, name = '', template, metadata } = info
  const text = `${id} ${name} ${template} ${Object.entries(metadata).flat().join(' ')}`.toLowerCase()
  return words.every((word) => text.includes(word))
}
