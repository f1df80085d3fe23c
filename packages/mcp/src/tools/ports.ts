import { z } from 'zod'
import { sandboxInput } from '../fields.ts'
import { LINK_MAX_MINUTES, PORT_WAIT_MAX_MS } from '../limits.ts'
import { aboutTool } from '../shared-words.ts'
import { defineTool } from '../tool.ts'

const PORT_WAIT_DEFAULT_MS = 5_000

export const previewUrl = defineTool({
  name: 'preview_url',
  title: 'Link to a port',
  description: `${aboutTool('preview_url')} Anyone with the link can open it until it expires. Start the server first; this \
tool waits until it listens. Show the link to the user.`,
  input: z.strictObject({
    port: z.int().min(1).max(65_535).describe('The TCP port that the server listens on.'),
    path: z
      .string()
      .regex(/^\/[\x21-\x7e]*$/, 'must begin with "/" and be percent-encoded')
      .optional()
      .describe('Path and query that the link opens. Default: `/`.'),
    expiresInMinutes: z.int().min(1).max(LINK_MAX_MINUTES).optional().describe('Default: 60.'),
    waitMs: z
      .int()
      .min(0)
      .max(PORT_WAIT_MAX_MS)
      .optional()
      .describe(`How many milliseconds to wait until the server listens. Default: ${PORT_WAIT_DEFAULT_MS}.`),
    sandbox: sandboxInput,
  }),
  output: z.object({ url: z.string(), expiresAt: z.string() }),
  annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  call: async ({ port, path, expiresInMinutes, waitMs, sandbox: named }, { conversation, signal }) => {
    const { sandbox } = await conversation.sandbox(named, signal)
    await sandbox.ports.wait(port, { timeoutMs: waitMs ?? PORT_WAIT_DEFAULT_MS, signal })
    const { url, expiresAt } = await sandbox.ports.link(port, {
      ...(path !== undefined && { path }),
      ...(expiresInMinutes !== undefined && { expiresInMs: expiresInMinutes * 60_000 }),
      signal,
    })
    return { structured: { url, expiresAt } }
  },
})
