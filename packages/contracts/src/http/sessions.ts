import { z } from 'zod'
import { timestampField } from './fields.ts'

/** An API key, or the code of a sign-in link. */
const CREDENTIAL_MAX_CHARACTERS = 200
const credentialField = z.string().min(1).max(CREDENTIAL_MAX_CHARACTERS)

export const signInSchema = z
  .strictObject({
    apiKey: credentialField.exactOptional(),
    code: credentialField.exactOptional().describe('The code of a sign-in link. Works once.'),
  })
  .refine(({ apiKey, code }) => (apiKey === undefined) !== (code === undefined), {
    error: 'is required, unless `code` is given',
    path: ['apiKey'],
  })
  .meta({ id: 'SignIn', examples: [{ code: '4mX9cYvTQzK1bW0pR7sHdA' }] })

export const sessionSchema = z
  .strictObject({
    keyId: z.string(),
    name: z.string().describe('The name of the key.'),
    scopes: z.array(z.enum(['read', 'run', 'admin'])).readonly(),
    expiresAt: timestampField.optional().describe('Absent for a request with an API key.'),
    server: z.strictObject({
      version: z.string(),
      previewDomain: z.string().optional().describe('Previews are at `<port>-<id>.<domain>`.'),
    }),
  })
  .meta({
    id: 'Session',
    examples: [
      {
        keyId: 'k3v9x2m4p7q8r5t6',
        name: 'laptop',
        scopes: ['admin'],
        expiresAt: '2026-01-08T12:00:00.000Z',
        server: { version: '0.1.0', previewDomain: 'localhost' },
      },
    ],
  })

export const signInLinkSchema = z
  .strictObject({
    path: z
      .string()
      .describe('Open it on this server. The code is in the fragment, which browsers do not send.'),
    code: z.string(),
    expiresAt: timestampField,
  })
  .meta({
    id: 'SignInLink',
    examples: [
      {
        path: '/#code=4mX9cYvTQzK1bW0pR7sHdA',
        code: '4mX9cYvTQzK1bW0pR7sHdA',
        expiresAt: '2026-01-01T12:01:00.000Z',
      },
    ],
  })

export type SessionAnswer = z.output<typeof sessionSchema>
export type SignInLinkAnswer = z.output<typeof signInLinkSchema>
