import { z } from 'zod'
import { integerText, sandboxRefField, textField, timestampField } from './fields.ts'

const PORT_MAX = 65_535
const PATH_MAX_BYTES = 2048
const HOUR_MS = 3600 * 1000
/** A link cannot be revoked, so it must expire. */
const LINK_MAX_MS = 30 * 24 * HOUR_MS
/** Proxies cut longer requests. Clients repeat the request to wait longer. */
const WAIT_MAX_MS = 10 * 60_000

export const portParams = z.strictObject({
  id: sandboxRefField,
  port: integerText({ min: 1, max: PORT_MAX }).describe('A TCP port inside the sandbox.'),
})

const portAccessField = z
  .enum(['private', 'public'])
  .describe(
    '`private`: needs a key or a link. `public`: anyone who knows the address has access, and wakes the sandbox.',
  )

export const portSchema = z
  .strictObject({
    port: z.int().min(1).max(PORT_MAX),
    isListening: z.boolean(),
    addresses: z
      .array(z.string())
      .readonly()
      .describe('The addresses that programs listen on. Only 127.0.0.1, ::1, 0.0.0.0 and :: can be reached.'),
    access: portAccessField,
    url: z.string().describe('The address of the port from outside, for browsers.'),
    pathUrl: z
      .string()
      .describe(
        'The same port by path, at the address of the server: for programs, which cannot resolve every `*.localhost` name.',
      ),
  })
  .meta({
    id: 'Port',
    examples: [
      {
        port: 8000,
        isListening: true,
        addresses: ['0.0.0.0'],
        access: 'private',
        url: 'http://8000-sb-k3v9x2m4p7q8r5t6.localhost:7070/',
        pathUrl: 'http://127.0.0.1:7070/v1/sandboxes/sb-k3v9x2m4p7q8r5t6/ports/8000/',
      },
    ],
  })

export const portListSchema = z
  .strictObject({ items: z.array(portSchema).readonly() })
  .meta({ id: 'PortList' })

export const setPortSchema = z
  .strictObject({ access: portAccessField })
  .meta({ id: 'SetPort', examples: [{ access: 'public' }] })

export const createLinkSchema = z
  .strictObject({
    expiresInMs: z.int().min(1).max(LINK_MAX_MS).default(HOUR_MS),
    path: textField({ maxBytes: PATH_MAX_BYTES })
      .regex(/^\/[\x21-\x7e]*$/, 'must begin with "/" and be percent-encoded')
      .default('/')
      .describe('The path and query that the link opens.'),
  })
  .prefault({})
  .meta({ id: 'CreatePortLink', examples: [{ expiresInMs: 3_600_000, path: '/' }] })

export const linkSchema = z
  .strictObject({ url: z.string(), pathUrl: z.string(), expiresAt: timestampField })
  .meta({
    id: 'PortLink',
    examples: [
      {
        url: 'http://8000-sb-k3v9x2m4p7q8r5t6.localhost:7070/?dormouse-token=…',
        pathUrl: 'http://127.0.0.1:7070/v1/sandboxes/sb-k3v9x2m4p7q8r5t6/ports/8000/?dormouse-token=…',
        expiresAt: '2026-01-01T13:00:00.000Z',
      },
    ],
  })

export const waitForPortSchema = z
  .strictObject({ timeoutMs: z.int().min(0).max(WAIT_MAX_MS).default(30_000) })
  .prefault({})
  .meta({ id: 'WaitForPort', examples: [{ timeoutMs: 30_000 }] })

export const tcpControlSchema = z.strictObject({ type: z.literal('end') })

export type PortAccess = z.output<typeof portAccessField>
export type PortAnswer = z.output<typeof portSchema>
export type PortListAnswer = z.output<typeof portListSchema>
export type CreatePortLinkBody = z.input<typeof createLinkSchema>
export type PortLinkAnswer = z.output<typeof linkSchema>
export type WaitForPortBody = z.input<typeof waitForPortSchema>
