import { z } from 'zod'
import { decodeBase64 } from '../decode-base64.ts'
import { noteOutput, sandboxInput } from '../fields.ts'
import { imageType, isNamedLikeImage } from '../image-type.ts'
import {
  FILE_READ_DEFAULT_BYTES,
  FILE_READ_MAX_BYTES,
  FILES_LISTED_MAX,
  IMAGE_MAX_CHARACTERS,
} from '../limits.ts'
import { readPart } from '../read-part.ts'
import { aboutInput, aboutTool } from '../shared-words.ts'
import { defineTool } from '../tool.ts'

const path = z
  .string()
  .min(1)
  .refine((text) => !text.includes('\0'), 'must not contain NUL bytes')
  .describe(aboutInput('read_file', 'path'))

export const readFile = defineTool({
  name: 'read_file',
  title: 'Read a file',
  description: `${aboutTool('read_file')} Returns text as text, PNG, JPEG, GIF and WebP as an image, other binary files as \
base64.`,
  input: z.strictObject({
    path,
    sandbox: sandboxInput,
    offsetBytes: z.int().min(0).optional().describe(aboutInput('read_file', 'offsetBytes')),
    maxBytes: z
      .int()
      .min(1)
      .max(FILE_READ_MAX_BYTES)
      .optional()
      .describe(`${aboutInput('read_file', 'maxBytes')} Images are read whole.`),
  }),
  output: z.object({
    path: z.string(),
    sizeBytes: z.int().describe('Of the whole file.'),
    encoding: z.enum(['text', 'base64', 'image']),
    content: z.string().optional().describe('Absent for images, which are image content.'),
    nextOffsetBytes: z
      .int()
      .optional()
      .describe('The offset of the next part. Absent at the end of the file.'),
  }),
  annotations: { readOnlyHint: true },
  call: async ({ path, sandbox: named, offsetBytes = 0, maxBytes }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const { sizeBytes } = await sandbox.files.stat(path, { signal })
    const isWhole = offsetBytes === 0 && maxBytes === undefined && sizeBytes <= (IMAGE_MAX_CHARACTERS / 4) * 3
    if (isWhole && isNamedLikeImage(path)) {
      const bytes = await sandbox.files.readBytes(path, { signal })
      const mimeType = imageType(bytes)
      if (mimeType !== undefined) {
        const data = Buffer.from(bytes).toString('base64')
        return {
          structured: { path, sizeBytes, encoding: 'image' as const },
          content: [{ type: 'image', mimeType, data }],
        }
      }
    }
    const limit = maxBytes ?? FILE_READ_DEFAULT_BYTES
    const part = await readPart(sandbox.files.stream(path, { signal }), { offsetBytes, maxBytes: limit })
    const about = {
      path,
      sizeBytes: Math.max(sizeBytes, part.endBytes),
      nextOffsetBytes: part.nextOffsetBytes,
    }
    const encoding = part.text === undefined ? ('base64' as const) : ('text' as const)
    const content = part.text ?? part.bytes.toString('base64')
    const more = part.nextOffsetBytes === undefined ? [] : [moreNote(about.sizeBytes, part.nextOffsetBytes)]
    return {
      structured: { ...about, encoding, content },
      content: [content, ...more].map((text) => ({ type: 'text' as const, text })),
    }
  },
})

function moreNote(sizeBytes: number, nextOffsetBytes: number): string {
  return `[more: ${sizeBytes} bytes in total, continue with offsetBytes ${nextOffsetBytes}, or work on it with run_python]`
}

export const writeFile = defineTool({
  name: 'write_file',
  title: 'Write a file',
  description: `${aboutTool('write_file')} Writes bytes with \`encoding\`, and adds to a file with \`append\`. Use it for source code, configuration and data that you have. Returns the path and the new size.`,
  input: z.strictObject({
    path,
    content: z.string(),
    encoding: z.enum(['text', 'base64']).optional().describe('Of `content`. Default: `text`.'),
    append: z.boolean().optional().describe('Add to the end of the file.'),
    mode: z
      .string()
      .regex(/^0?[0-7]{3,4}$/, 'must be octal digits, such as 0755')
      .optional()
      .describe('Permissions in octal, such as 0755.'),
    sandbox: sandboxInput,
  }),
  output: z.object({
    sandbox: z.string(),
    path: z.string(),
    sizeBytes: z.int(),
    mode: z.string(),
    note: noteOutput,
  }),
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false },
  call: async ({ path, content, encoding, append, mode, sandbox: named }, { conversation, signal }) => {
    const bytes = encoding === 'base64' ? decodeBase64(content) : content
    const { sandbox, note } = await conversation.sandbox(named, signal)
    const written = await sandbox.files.write(path, bytes, { append, mode, parents: true, signal })
    return {
      structured: {
        sandbox: sandbox.name ?? sandbox.id,
        ...{ path: written.path, sizeBytes: written.sizeBytes, mode: written.mode, note },
      },
    }
  },
})

export const listFiles = defineTool({
  name: 'list_files',
  title: 'List files',
  description: `${aboutTool('list_files')} Continue with \`offset\`.`,
  input: z.strictObject({
    path: path.optional().describe(aboutInput('list_files', 'path')),
    depth: z.int().min(1).max(10).optional().describe(aboutInput('list_files', 'depth')),
    offset: z.int().min(0).optional().describe('How many entries to skip. Default: 0.'),
    sandbox: sandboxInput,
  }),
  output: z.object({
    path: z.string(),
    entries: z.array(
      z.object({
        path: z.string(),
        type: z.string(),
        sizeBytes: z.int(),
        modifiedAt: z.string(),
        target: z.string().optional().describe('The target of a symbolic link.'),
      }),
    ),
    leftOut: z.int().describe('Number of entries after these.'),
    note: noteOutput,
  }),
  annotations: { readOnlyHint: true },
  call: async ({ path = '/root', depth, offset = 0, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const options = depth === undefined ? { signal } : { depth, signal }
    const all = await sandbox.files.list(path, options)
    const entries = all
      .slice(offset, offset + FILES_LISTED_MAX)
      .map(({ path, type, sizeBytes, modifiedAt, target }) => ({ path, type, sizeBytes, modifiedAt, target }))
    const end = offset + entries.length
    const leftOut = Math.max(0, all.length - end)
    const note =
      leftOut === 0 ? undefined : `${leftOut} more entries: continue with offset ${end}, or use find.`
    return { structured: { path, entries, leftOut, note } }
  },
})
