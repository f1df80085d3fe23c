import { BoundedText } from '../runs/bounded-text.ts'
import type { Result } from '../runs/result.ts'
import type { RunResult } from '../runs/run-result.ts'
import { type ToolImage, type ToolOutput, toolOutput } from './tool-output.ts'

/** For stdout, stderr, a value and a traceback, each: about five thousand tokens. The start and the end are kept. */
const TEXT_MAX_BYTES = 20_000
const IMAGES_MAX = 10
/** As base64. Common models refuse larger images. */
const IMAGE_MAX_CHARACTERS = 5 * 1024 ** 2
const DISPLAYED_MAX = 10
/** The first bytes of an image, as base64. The sandbox chose the label, so the label proves nothing. */
const IMAGE_STARTS: readonly (readonly [mediaType: string, start: string])[] = [
  ['image/png', 'iVBORw0KGgo'],
  ['image/jpeg', '/9j/'],
  ['image/gif', 'R0lGOD'],
  ['image/webp', 'UklGR'],
]
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** What a model should read of a run: output as a notebook shows it, and plots as images. */
export function describeRun(run: RunResult): ToolOutput {
  const all = run.results.flatMap(imagesOf)
  const images = all.filter(({ data }) => data.length <= IMAGE_MAX_CHARACTERS).slice(0, IMAGES_MAX)
  const leftOut = all.length - images.length
  const { error } = run
  const parts = [
    run.contextRestarted && `[The earlier variables are lost: ${run.contextRestarted}]`,
    bounded(run.stdout),
    run.stderr && `[stderr]\n${bounded(run.stderr)}`,
    ...displayed(run),
    run.text && bounded(run.text),
    // Usually stderr has it as well.
    error && !run.stderr.includes(error.traceback.trimEnd()) && bounded(error.traceback),
    run.timedOut &&
      '[timed out: run it with a longer timeoutMs, or in smaller steps; the variables are kept]',
    error === undefined && run.outOfMemory && `[${run.outOfMemory}]`,
    error === undefined && run.exitCode !== 0 && `[exit code ${run.exitCode}]`,
    leftOut > 0 && `[${leftOut} images left out: the limit is ${IMAGES_MAX} images of 5 MB each]`,
  ]
  return toolOutput(joinParts(parts, images), { images, isError: error !== undefined })
}

/** The same for a shell command. An exit code other than 0 is information for the model, not an error of the tool. */
export function describeCommand(command: {
  readonly stdout: string
  readonly stderr: string
  readonly exitCode: number
  readonly timedOut?: boolean | undefined
  readonly outOfMemory?: string | undefined
}): ToolOutput {
  const parts = [
    bounded(command.stdout),
    command.stderr && `[stderr]\n${bounded(command.stderr)}`,
    command.timedOut && '[timed out: give it a longer timeoutMs, or start it in the background with `&`]',
    command.outOfMemory && `[${command.outOfMemory}]`,
    command.exitCode !== 0 && `[exit code ${command.exitCode}]`,
  ]
  return toolOutput(joinParts(parts, []))
}

/** Cuts the middle out of long text and says how to get it. */
export function bounded(text: string): string {
  const kept = new BoundedText(TEXT_MAX_BYTES)
  kept.add(text)
  if (kept.lostBytes === 0) return text
  return `${kept.text()}\n[cut: print less, or write it to a file and read parts of it with read_file]`
}

function joinParts(parts: readonly (string | false | undefined)[], images: readonly ToolImage[]): string {
  const shown = parts.filter((part): part is string => typeof part === 'string' && part !== '')
  if (shown.length > 0) return shown.map((part) => part.replace(/\n$/, '')).join('\n')
  return images.length > 0 ? '[no text, see the images]' : '[no output]'
}

/** The text of results without an image: the text beside an image only names it. */
function displayed(run: RunResult): string[] {
  return run.results
    .filter((result) => !result.isMain && imagesOf(result).length === 0)
    .map((result) => result.markdown ?? result.text)
    .filter((text): text is string => text !== undefined && text !== run.text)
    .slice(0, DISPLAYED_MAX)
    .map(bounded)
}

function imagesOf(result: Result): ToolImage[] {
  for (const [mediaType] of IMAGE_STARTS) {
    const value = result[mediaType]
    if (typeof value !== 'string') continue
    // Notebooks break base64 into lines; models want one line.
    const data = value.replace(/\s/g, '')
    const found = imageTypeOf(data)
    return found === undefined ? [] : [{ mediaType: found, data }]
  }
  return []
}

/** Undefined if it is not the base64 of an image that models can see. */
export function imageTypeOf(base64: string): string | undefined {
  if (!BASE64.test(base64)) return undefined
  return IMAGE_STARTS.find(([, start]) => base64.startsWith(start))?.[0]
}
