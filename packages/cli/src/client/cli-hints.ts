import type { DormouseError } from 'dormouse'

/** Words of the API in hints of the server, and the words of the command line for them. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [
    /Send `Authorization: Bearer <key>` with a key from `dormouse key create`/,
    'Set DORMOUSE_API_KEY to a key of this server, from `sudo ./dormouse key create NAME`',
  ],
  [
    /Use a key that has the named scope/,
    'Use a key that has the named scope, from `sudo ./dormouse key create NAME --scope SCOPE`',
  ],
  [
    /create with `getOrCreate: true` to get the existing one/,
    'use the existing one with `dormouse create --get-or-create --name NAME`',
  ],
  [/Send less at once, or stream it as a file/, 'Copy large data as a file, with `dormouse cp`'],
  [/Wait for the time in `Retry-After`/, 'Wait a moment and try again'],
  [/Try again after `Retry-After`/, 'Try again in a moment'],
  [/POST \/v1\/volumes/, '`dormouse volume create NAME`'],
  [/POST \/v1\/secrets/, '`dormouse secret create NAME`'],
  [/, or PATCH \/v1\/secrets\/[^\s.]+/, ''],
  [/`POST …\/ports\/\{port\}\/wait`/, '`dormouse port wait SANDBOX PORT`'],
  [
    /`POST …\/ports\/\{port\}\/link`, or send `Authorization: Bearer <key>`/,
    '`dormouse port link SANDBOX PORT`',
  ],
  [/`GET …\/processes`/, '`dormouse exec SANDBOX -- ps -e`'],
  [/, or `limits\.\w+` of an update by HTTP or an SDK/, ''],
  [/ \(`sizeBytes` in the API\)/, ''],
  [/`force=true`/, '`--force`'],
  [/The end of its log is in `details\.logTail`/, 'Its log is above'],
  [/ `templates\.debug` starts a sandbox before the step\./, ''],
]

/** The hint of an error in the words of the command line. */
export function cliHint({ hint, details }: Pick<DormouseError, 'hint' | 'details'>): string {
  const { runId } = details
  const run = typeof runId === 'string' ? runId : 'RUN'
  return WORDS.reduce((text, [words, ours]) => text.replace(words, ours), hint).replace(
    /read the run with the `runId` in `details`/,
    `read it with \`dormouse logs SANDBOX ${run}\``,
  )
}
