import type { SourceFile } from './rules.ts'

/** Types are left out: those of parameters are exported so that callers can name them. */
const EXPORT = /^export (?:async )?(?:const|function\*?|class|enum) ([\w$]+)/gm
const WORD = /[A-Za-z_$][\w$]*/g

/** Constants, functions and classes that are exported although no other file mentions their name. */
export function unusedExports(files: readonly SourceFile[]): string[] {
  const scripts = files.filter(({ path }) => /\.(tsx?|mjs)$/.test(path))
  const mentions = new Map<string, number>()
  for (const { text } of scripts)
    for (const word of new Set(text.match(WORD))) mentions.set(word, (mentions.get(word) ?? 0) + 1)
  // Tests export nothing; some have programs in strings.
  const exporters = scripts.filter(({ path }) => !path.endsWith('.test.ts'))
  return exporters.flatMap(({ path, text }) =>
    [...text.matchAll(EXPORT)]
      .map(([, name = '']) => name)
      .filter((name) => mentions.get(name) === 1)
      .map((name) => `${path} exports ${name}, which no other file mentions`),
  )
}
