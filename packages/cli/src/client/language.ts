import type { Context, Sandbox } from 'dormouse'
import { UsageError } from './cli-error.ts'

export type Language = Context['language']

const NAMES: Readonly<Record<string, Language>> = {
  python: 'python',
  py: 'python',
  bash: 'bash',
  sh: 'bash',
  javascript: 'javascript',
  js: 'javascript',
  typescript: 'typescript',
  ts: 'typescript',
  r: 'r',
}

export const LANGUAGE_CHOICES = 'python, bash, js, ts or r'

export function languageFlag(text: string): Language {
  const language = Object.hasOwn(NAMES, text.toLowerCase()) ? NAMES[text.toLowerCase()] : undefined
  if (language !== undefined) return language
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
