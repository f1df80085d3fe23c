import type { ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import type { ResultData, RunResult, Sandbox } from 'dormouse'
import { z } from 'zod'
import { boundedOutput } from './bounded-output.ts'
import { noteOutput } from './fields.ts'
import { imageType } from './image-type.ts'
import { IMAGE_MAX_CHARACTERS, IMAGES_MAX } from './limits.ts'
import type { ToolAnswer } from './tool.ts'

/** The types that code may declare; `imageType` decides. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

export const runOutput = z.object({
  sandbox: z.string().describe('The sandbox that it ran in.'),
  stdout: z.string(),
  stderr: z.string(),
  exitCode: z.int(),
  value: z.string().optional().describe('The value of the last expression.'),
  displayed: z.array(z.string()).optional().describe('What the code displayed before that, as text.'),
  images: z.int().describe('Number of images in the image content of this result.'),
  error: z
    .object({ name: z.string(), message: z.string(), traceback: z.string() })
    .optional()
    .describe('The exception that the code raised.'),
  timedOut: z.boolean().optional(),
  interrupted: z.boolean().optional(),
  memoryLost: z.string().optional().describe('Why the earlier variables are lost.'),
  durationMs: z.number(),
  note: noteOutput,
})

export function runAnswer(
  run: RunResult,
  { sandbox, note }: { sandbox: Sandbox; note?: string | undefined },
): ToolAnswer<z.input<typeof runOutput>> {
  const images = run.results.flatMap(imagesOf)
  const shown = images.filter(({ data }) => data.length <= IMAGE_MAX_CHARACTERS).slice(0, IMAGES_MAX)
  const structured = {
    sandbox: sandbox.name ?? sandbox.id,
    stdout: boundedOutput(run.stdout),
    stderr: boundedOutput(run.stderr),
    exitCode: run.exitCode,
    value: run.text === undefined ? undefined : boundedOutput(run.text),
    displayed: displayedBy(run),
    images: shown.length,
    error: run.error && { ...run.error, traceback: boundedOutput(run.error.traceback) },
    timedOut: run.timedOut,
    interrupted: run.interrupted,
    memoryLost: run.contextRestarted,
    durationMs: run.durationMs,
    note: notes(note, images.length - shown.length),
  }
  return {
    structured,
    content: [{ type: 'text', text: asText(structured) }, ...shown],
    isError: run.error !== undefined,
  }
}

/** As a notebook shows it. */
function asText(run: z.input<typeof runOutput>): string {
  const parts = [
    run.note && `[${run.note}]`,
    run.memoryLost && `[The earlier variables are lost: ${run.memoryLost}]`,
    run.stdout,
    run.stderr && `[stderr]\n${run.stderr}`,
    ...(run.displayed ?? []),
    run.value,
    // Usually stderr has it as well.
    run.error && !run.stderr.includes(run.error.traceback.trimEnd()) && run.error.traceback,
    run.timedOut && '[timed out]',
    run.exitCode !== 0 && run.error === undefined && `[exit code ${run.exitCode}]`,
  ].filter((part): part is string => typeof part === 'string' && part !== '')
  if (parts.length > 0) return parts.map((part) => part.replace(/\n$/, '')).join('\n')
  return run.images > 0 ? '[no text, see the images]' : '[no output]'
}

/** The text of results without an image: the text beside an image only names it. */
function displayedBy({ results, text }: RunResult): string[] | undefined {
  const texts = results
    .filter((data) => imagesOf(data).length === 0)
    .map((data) => data['text/markdown'] ?? data['text/plain'])
    .filter((found): found is string => typeof found === 'string')
  // The value of the last expression is displayed last, and has its own field.
  if (text !== undefined && texts.at(-1) === text) texts.pop()
  return texts.length === 0 ? undefined : texts.slice(0, IMAGES_MAX).map(boundedOutput)
}

function imagesOf(data: ResultData): Extract<ContentBlock, { type: 'image' }>[] {
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
