import type { ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import type { ResultData, Sandbox } from 'dormouse'
import { z } from 'zod'
import { noteOutput } from '../fields.ts'
import { imageType } from '../image-type.ts'
import { IMAGE_MAX_CHARACTERS, IMAGES_MAX } from '../limits.ts'
import type { ToolAnswer } from '../tool.ts'
import { boundedOutput } from './bounded-output.ts'
import type { NetworkFailures } from './network-failures.ts'
import type { RunOutput } from './run-output.ts'
import type { ToolRunStatus } from './tool-run.ts'

/** The types that code may declare; `imageType` decides. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

export const runFields = z.object({
  run: z
    .string()
    .optional()
    .describe('Its id, for get_run and cancel_run. Absent for a command that has ended.'),
  state: z
    .enum(['queued', 'running', 'finished'])
    .describe('`queued`: an earlier run of the context comes first. Call get_run until it is `finished`.'),
  sandbox: z.string().describe('The sandbox that it runs in.'),
  stdout: z.string(),
  stderr: z.string(),
  exitCode: z.int().optional().describe('Absent until it has ended.'),
  signal: z.string().optional().describe('The signal that ended a command.'),
  value: z.string().optional().describe('The value of the last expression.'),
  displayed: z.array(z.string()).optional().describe('What the code displayed before that, as text.'),
  images: z.int().describe('Number of images in the image content of this result.'),
  error: z
    .object({ name: z.string(), message: z.string(), traceback: z.string() })
    .optional()
    .describe('The exception that the code raised.'),
  timedOut: z.boolean().optional(),
  interrupted: z.boolean().optional(),
  contextRestarted: z.string().optional().describe('Why the context is new: its earlier variables are lost.'),
  outOfMemory: z
    .string()
    .optional()
    .describe(
      'It was killed because the sandbox reached its memory limit: the figures, and the way to raise it.',
    ),
  durationMs: z.number().optional(),
  lastEvent: z.int().describe('Give it as `after` to get_run to get only later output.'),
  denied: z.array(z.string()).optional().describe('What the network policy refused during the run.'),
  failedLookups: z
    .array(z.string())
    .optional()
    .describe('Names that could not be resolved during the run, with the reason.'),
  note: noteOutput,
})

export type RunFields = z.input<typeof runFields>

export interface RunAnswerOptions {
  readonly sandbox: Sandbox
  readonly id: string | undefined
  /** Known unless the run has succeeded. */
  readonly status: ToolRunStatus | undefined
  readonly network: NetworkFailures
  readonly note: string | undefined
}

export function runAnswer(output: RunOutput, options: RunAnswerOptions): ToolAnswer<RunFields> {
  const { sandbox, id, status, network } = options
  const images = output.results.flatMap(imagesOf)
  const shown = images.filter(({ data }) => data.length <= IMAGE_MAX_CHARACTERS).slice(0, IMAGES_MAX)
  const { exit } = output
  const structured: RunFields = {
    run: id,
    state: exit === undefined ? (status?.state ?? 'running') : 'finished',
    sandbox: sandbox.name ?? sandbox.id,
    stdout: output.stdout.text(),
    stderr: output.stderr.text(),
    exitCode: exit?.exitCode ?? status?.exitCode,
    signal: exit?.signal,
    value: output.value === undefined ? undefined : boundedOutput(output.value),
    displayed: displayedBy(output),
    images: shown.length,
    error: output.error && { ...output.error, traceback: boundedOutput(output.error.traceback) },
    timedOut: exit?.timedOut,
    interrupted: exit !== undefined && 'interrupted' in exit ? exit.interrupted : undefined,
    contextRestarted: output.contextRestarted,
    outOfMemory: exit?.outOfMemory,
    durationMs: exit?.durationMs,
    lastEvent: output.lastEvent,
    denied: network.denied.length === 0 ? undefined : [...network.denied],
    failedLookups: network.failedLookups.length === 0 ? undefined : [...network.failedLookups],
    note: notes(options.note, images.length - shown.length),
  }
  return {
    structured,
    content: [{ type: 'text', text: asText(structured) }, ...shown],
    isError: output.error !== undefined,
  }
}

/** As a notebook shows it. */
function asText(run: RunFields): string {
  const parts = [
    run.note && `[${run.note}]`,
    run.contextRestarted && `[The earlier variables are lost: ${run.contextRestarted}]`,
    run.stdout,
    run.stderr && `[stderr]\n${run.stderr}`,
    ...(run.displayed ?? []),
    run.value,
    // Usually stderr has it as well.
    run.error && !run.stderr.includes(run.error.traceback.trimEnd()) && run.error.traceback,
    run.timedOut && '[timed out]',
    run.error === undefined && run.outOfMemory && `[${run.outOfMemory}]`,
    run.exitCode !== undefined &&
      run.exitCode !== 0 &&
      run.error === undefined &&
      `[exit code ${run.exitCode}]`,
    run.denied && `[The network policy of the sandbox refused: ${run.denied.join('; ')}]`,
    run.failedLookups && `[Names that could not be resolved: ${run.failedLookups.join('; ')}]`,
    run.state !== 'finished' &&
      `[${run.state}: call get_run with run "${run.run}", after ${run.lastEvent} and sandbox "${run.sandbox}" for the rest]`,
  ].filter((part): part is string => typeof part === 'string' && part !== '')
  if (parts.length > 0) return parts.map((part) => part.replace(/\n$/, '')).join('\n')
  return run.images > 0 ? '[no text, see the images]' : '[no output]'
}

/** The text of results without an image: the text beside an image only names it. */
function displayedBy({ results, value }: RunOutput): string[] | undefined {
  const texts = results
    .filter((data) => imagesOf(data).length === 0)
    .map((data) => data['text/markdown'] ?? data['text/plain'])
    .filter((found): found is string => typeof found === 'string')
  // The value of the last expression is displayed last, and has its own field.
  if (value !== undefined && texts.at(-1) === value) texts.pop()
  return texts.length === 0 ? undefined : texts.slice(0, IMAGES_MAX).map(boundedOutput)
}

export type RunImage = Extract<ContentBlock, { type: 'image' }>

export function imagesOf(data: ResultData): RunImage[] {
  const label = IMAGE_TYPES.find((type) => typeof data[type] === 'string')
  if (label === undefined) return []
  // Notebooks break base64 into lines; clients want one line.
  const text = String(data[label]).replace(/\s/g, '')
  const mimeType = BASE64.test(text) ? imageType(Buffer.from(text.slice(0, 16), 'base64')) : undefined
  return mimeType === undefined ? [] : [{ type: 'image', mimeType, data: text }]
}

function notes(note: string | undefined, imagesLeftOut: number): string | undefined {
  const leftOut =
    imagesLeftOut === 0
      ? undefined
      : `${imagesLeftOut} images were left out: the limit is ${IMAGES_MAX} images of 5 MB each.`
  const all = [note, leftOut].filter((text) => text !== undefined)
  return all.length === 0 ? undefined : all.join(' ')
}
