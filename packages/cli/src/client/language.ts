import { Option } from 'commander'
import type { Context, Sandbox } from 'dormouse'
import { UsageError } from './cli-error.ts'

export type Language = Context['language']

/** What `--language` takes for each language. The last one is in help texts. */
const NAMES: Readonly<Record<Language, readonly string[]>> = {
  python: ['py', 'python'],
  bash: ['sh', 'bash'],
  javascript: ['javascript', 'js'],
  typescript: ['typescript', 'ts'],
  r: ['r'],
}

const SHOWN = Object.values(NAMES).map((names) => names.at(-1) ?? '')
const LANGUAGE_CHOICES = `${SHOWN.slice(0, -1).join(', ')} or ${SHOWN.at(-1)}`

export function languageOption(flags: string, description: string, byDefault = 'python'): Option {
  return new Option(flags, `${description}: ${LANGUAGE_CHOICES} (default: ${byDefault})`).argParser(
    readLanguage,
  )
}

function readLanguage(text: string): Language {
  const found = Object.entries(NAMES).find(([, names]) => names.includes(text.toLowerCase()))
  if (found !== undefined) return found[0] as Language
  throw new UsageError(`--language has an invalid value "${text}"`, `Use ${LANGUAGE_CHOICES}.`)
}

/** The context of a prompt that names none: the one that runs of this language have, and for bash one that keeps. */
export function promptContext(language: Language | undefined): string {
  if (language === undefined || language === 'python') return 'default'
  return language === 'typescript' ? 'javascript' : language
}

export async function languageOfContext(
  sandbox: Sandbox,
  name: string,
  signal: AbortSignal,
): Promise<Language> {
  const all = await sandbox.contexts.list({ signal })
  return all.find((context) => context.name === name)?.language ?? 'python'
}
