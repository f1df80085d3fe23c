import type { MicrovmBurrow } from '../../packages/engine-microvm/src/burrow/microvm-burrow.ts'

/** By option, for long attacks and other ones. */
export const SEED = Number(process.env['DORMOUSE_FUZZ_SEED'] ?? 19)
const ROUNDS_OPTION = process.env['DORMOUSE_FUZZ_ROUNDS']
/** A round takes some milliseconds under emulation. */
const ROUND_MS = 60
const SHORT_MS = 120_000
/** So often the neighbour answers before a machine that reports nothing counts as stopped. */
const SILENT_ROUNDS_MAX = 40

export const roundsOf = (usually: number) => Number(ROUNDS_OPTION ?? usually)
export const timeoutOf = (rounds: number) => SHORT_MS + rounds * ROUND_MS

/** What a program of the attacker writes to the console about itself. */
export interface Report extends Readonly<Record<string, unknown>> {
  readonly rounds: number
}

/**
 * What the attack reported last, when it is over, or the machine or QEMU has stopped. The console needs neither a disk nor
 * the link.
 */
export async function lastReport<Of extends Report>(
  { qmp }: MicrovmBurrow,
  neighbourAnswers: () => Promise<void>,
): Promise<Of> {
  let [text, silentRounds] = ['', 0]
  while (!/^fuzzed$/m.test(text) && silentRounds < SILENT_ROUNDS_MAX) {
    const args = { device: 'console', size: 65_536, format: 'utf8' }
    const more = await qmp.execute('ringbuf-read', args).then(String, () => undefined)
    if (more === undefined) break
    text += more.replaceAll('\r', '')
    if (/^\w*Error\b/m.test(text)) throw new Error(text.slice(text.indexOf('Traceback')))
    silentRounds = more === '' ? silentRounds + 1 : 0
    await neighbourAnswers()
  }
  const last = [...text.matchAll(/^fuzz (\{.*\})$/gm)].at(-1)?.[1]
  if (last === undefined) throw new Error(`The attack reported nothing: ${text.slice(-2_000)}`)
  // With the option, the numbers are what the run is for.
  if (ROUNDS_OPTION !== undefined) process.stderr.write(`seed ${SEED}: ${last}\n`)
  return JSON.parse(last) as Of
}
