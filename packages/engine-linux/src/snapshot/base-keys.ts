import { digitsOf, type TemplateBuild } from '../template/template-build.ts'

/** What a key of a base names. */
export type NamedBase =
  | { readonly kind: 'template'; readonly name: string; readonly hash: string; readonly digits: string }
  | { readonly kind: 'tools'; readonly name: string }

const TEMPLATE = /^template-(?<name>[a-z][a-z0-9-]{0,39})-(?<hash>[0-9a-z]{1,64})-(?<digits>\d{1,24})$/
const TOOLS = /^tools-(?<name>[0-9a-f]{16})$/

export function baseOfTemplate({ name, hash, builtAt }: TemplateBuild): string {
  return `template-${name}-${hash}-${digitsOf(builtAt)}`
}

export function baseOfTools(name: string): string {
  return `tools-${name}`
}

/** Undefined for a key that no host of this version makes. Its parts are safe as names of directories. */
export function parseBaseKey(key: string): NamedBase | undefined {
  const { name = '', hash = '', digits = '' } = TEMPLATE.exec(key)?.groups ?? {}
  if (name !== '') return { kind: 'template', name, hash, digits }
  const tools = TOOLS.exec(key)?.groups?.['name']
  return tools === undefined ? undefined : { kind: 'tools', name: tools }
}
