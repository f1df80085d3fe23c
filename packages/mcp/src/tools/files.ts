import { z } from 'zod'
import { noteOutput, sandboxInput } from '../fields.ts'
import { imageType, isNamedLikeImage } from '../image-type.ts'
import {
  FILE_READ_DEFAULT_BYTES,
  FILE_READ_MAX_BYTES,
  FILES_LISTED_MAX,
  IMAGE_MAX_CHARACTERS,
} from '../limits.ts'
import { readPart } from '../read-part.ts'
import { defineTool } from '../tool.ts'

const path = z.string().min(1).describe('Absolute, or relative to the home of the user (/root).')

export const readFile = defineTool({
  name: 'read_file',
  title: 'Read a file',
  description: `Read a file of the sandbox, or a part of it. Text comes as text, PNG, JPEG, GIF and WebP as an image, other binary files as base64. \
For large data work on it with run_python instead.`,
  input: z.strictObject({
    path,
    sandbox: sandboxInput,
    offsetBytes: z.int().min(0).optional().describe('Where to begin; 0 if not given.'),
    maxBytes: z
      .int()
      .min(1)
      .max(FILE_READ_MAX_BYTES)
      .optional()
      .describe(`How much at most; ${FILE_READ_DEFAULT_BYTES} if not given. Images are read whole.`),
  }),
  output: z.object({
    path: z.string(),
    sizeBytes: z.int().describe('Of the whole file.'),
    encoding: z.enum(['text', 'base64', 'image']),
    content: z.string().optional().describe('Not for images: those come as image content.'),
    nextOffsetBytes: z.int().optional().describe('Where to go on; absent when this was the end.'),
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
    const more =
      part.nextOffsetBytes === undefined
        ? []
        : [`[there is more: ${about.sizeBytes} bytes in all, go on with offsetBytes ${part.nextOffsetBytes}]`]
    return {
      structured: { ...about, encoding, content },
      content: [content, ...more].map((text) => ({ type: 'text' as const, text })),
    }
  },
})

export const writeFile = defineTool({
  name: 'write_file',
  title: 'Write a file',
  description: `Write a file in the sandbox; directories above it are made. It replaces what was there in one step, or adds to it with \`append\`. \
Use it for source code, configuration and data you have at hand. Returns where it is and how large it became.`,
  input: z.strictObject({
    path,
    content: z.string(),
    encoding: z.enum(['text', 'base64']).optional().describe('Of `content`; `text` if not given.'),
    append: z.boolean().optional().describe('Add to the end instead of replacing.'),
    mode: z.string().optional().describe('Permissions in octal, such as 0755.'),
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
    const { sandbox, note } = await conversation.sandbox(named, signal)
    const bytes = encoding === 'base64' ? Buffer.from(content, 'base64') : content
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
  description: `List a directory of the sandbox, with types, sizes and times. Returns at most ${FILES_LISTED_MAX} entries; to search, use run_shell with find or grep.`,
  input: z.strictObject({
    path: path.optional().describe('The directory; the home of the user (/root) if not given.'),
    depth: z.int().min(1).max(10).optional().describe('1 (if not given): this directory alone.'),
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
        target: z.string().optional().describe('Where a symbolic link leads.'),
      }),
    ),
    leftOut: z.int().describe('How many more there are.'),
  }),
  annotations: { readOnlyHint: true },
  call: async ({ path = '/root', depth, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    const options = depth === undefined ? { signal } : { depth, signal }
    const all = await sandbox.files.list(path, options)
    const entries = all
      .slice(0, FILES_LISTED_MAX)
      .map(({ path, type, sizeBytes, modifiedAt, target }) => ({ path, type, sizeBytes, modifiedAt, target }))
    return { structured: { path, entries, leftOut: all.length - entries.length } }
  },
})
