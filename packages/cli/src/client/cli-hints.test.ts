import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ERRORS } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import { cliHint } from './cli-hints.ts'

/** Words that a user of the command line has nothing to do with. */
const API_WORDS =
  /\b(GET|POST|PATCH|PUT|DELETE|HTTP|SDK|API(?! key))\b|`[a-z]+[A-Z]\w*|=true|…\/|Authorization|Retry-After|\/v1\//

/** Hints for requests that no command sends. */
const NOT_FOR_COMMANDS = new Set([
  'method_not_allowed',
  'not_acceptable',
  'unsupported_media_type',
  'idempotency_mismatch',
  'range_not_satisfiable',
])

describe('cliHint', () => {
  test.each(Object.entries(ERRORS).filter(([code]) => !NOT_FOR_COMMANDS.has(code)))(
    'has no words of the API for %s',
    (_code, { hint }) => {
      expect(cliHint({ hint, details: {} })).not.toMatch(API_WORDS)
    },
  )

  test('has no words of the API for hints that the server gives where it fails', () => {
    const shown = serverHints().map((hint) => cliHint({ hint, details: {} }))
    expect(shown.length).toBeGreaterThan(40)
    expect(shown.filter((hint) => API_WORDS.test(hint))).toEqual([])
  })

  test('names the run that continues', () => {
    const details = { runId: 'run-k3v9x2m4p7q8r5t6' }
    const { hint } = ERRORS.run_unfinished
    expect(cliHint({ hint, details })).toContain('`dormouse logs SANDBOX run-k3v9x2m4p7q8r5t6`')
  })
})

/** Literal hints in the server, but for those of routes that only programs call. */
function serverHints(): string[] {
  const source = fileURLToPath(new URL('../../../server/src', import.meta.url))
  const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
    .filter((path) => !/^api\/(json-body|routes|guest\/terminal-socket)|^store\/cursor|^mcp\//.test(path))
  return files.flatMap((path) =>
    [...readFileSync(join(source, path), 'utf8').matchAll(/hint: (['`])(.*)\1,?$/gm)].map(([, , hint]) =>
      (hint ?? '').replaceAll('\\`', '`'),
    ),
  )
}
