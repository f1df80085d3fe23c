import type { ContentBlock } from '@modelcontextprotocol/sdk/types.js'
import type { ResultData, RunResult, Sandbox } from 'dormouse'
import { z } from 'zod'
import { boundedOutput } from './bounded-output.ts'
import { noteOutput } from './fields.ts'
import { imageType } from './image-type.ts'
import { IMAGE_MAX_CHARACTERS, IMAGES_MAX } from './limits.ts'
import type { ToolAnswer } from './tool.ts'

/** What code says that it displays; `imageType` has the last word. */
const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp']
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

export const runOutput = z.object({
  sandbox: z.string().describe('Where it ran.'),
  stdout: z.string(),
  stderr: z.string(),
  exitCode: z.int(),
  value: z.string().optional().describe('The value of the last expression.'),
  displayed: z.array(z.string()).optional().describe('What else was displayed, as text.'),
  images: z.int().describe('How many images come with this, as image content.'),
  error: z
    .object({ name: z.string(), message: z.string(), traceback: z.string() })
    .optional()
    .describe('What the code raised.'),
  timedOut: z.boolean().optional(),
  interrupted: z.boolean().optional(),
  memoryLost: z.string().optional().describe('Why the variables from before are gone.'),
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
    run.memoryLost && `[The variables from before are gone: ${run.memoryLost}]`,
    run.stdout,
    run.stderr && `[stderr]\n${run.stderr}`,
    ...(run.displayed ?? []),
    run.value,
    // Most often it is on stderr as well.
    run.error && !run.stderr.includes(run.error.traceback.trimEnd()) && run.error.traceback,
    run.timedOut && '[timed out]',
    run.exitCode !== 0 && run.error === undefined && `[exit code ${run.exitCode}]`,
  ].filter((part): part is string => typeof part === 'string' && part !== '')
  if (parts.length > 0) return parts.map((part) => part.replace(/\n$/, '')).join('\n')
  return run.images > 0 ? '[no text, see the images]' : '[no output]'
}

/** Text of what has no picture: beside one it says only that there is one. */
function displayedBy({ results, text }: RunResult): string[] | undefined {
  const texts = results
    .filter((data) => imagesOf(data).length === 0)
    .map((data) => data['text/markdown'] ?? data['text/plain'])
    .filter((found): found is string => typeof found === 'string')
  // The last expression is the last that is displayed, and has its own place.
  if (text !== undefined && texts.at(-1) === text) texts.pop()
  return texts.length === 0 ? undefined : texts.slice(0, IMAGES_MAX).map(boundedOutput)
}

function imagesOf(data: ResultData): Extract<ContentBlock, { type: 'image' }>[] {
  const label = IMAGE_TYPES.find((type) => typeof data[type] === 'string')
  if (label === undefined) return []
  // A line every 76 characters is how notebooks write base64; clients want it in one piece.
  const text = String(data[label]).replace(/\s/g, '')
  const mimeType = BASE64.test(text) ? imageType(Buffer.from(text.slice(0, 16), 'base64')) : undefined
  return mimeType === undefined ? [] : [{ type: 'image', mimeType, data: text }]
}

function notes(note: string | undefined, imagesLeftOut: number): string | undefined {
  const leftOut =
    imagesLeftOut === 0
      ? undefined
      : `${imagesLeftOut} images were left out: at most ${IMAGES_MAX}, and of 5 MB each, are shown.`
  const all = [note, leftOut].filter((text) => text !== undefined)
  return all.length === 0 ? undefined : all.join(' ')
}
