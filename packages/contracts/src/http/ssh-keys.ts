import { z } from 'zod'
import { nameField, pageOf, pageQuery, textField, timestampField } from './fields.ts'

/** An RSA key of 16,384 bits has 2,800 characters. The rest leaves room for a comment. */
const PUBLIC_KEY_MAX_BYTES = 8192

export const addSshKeySchema = z
  .strictObject({
    name: nameField,
    publicKey: textField({ minLength: 1, maxBytes: PUBLIC_KEY_MAX_BYTES }).describe(
      'One line as in `~/.ssh/id_ed25519.pub`. Ed25519, ECDSA, or RSA of at least 2048 bits.',
    ),
  })
  .meta({
    id: 'AddSshKey',
    examples: [
      {
        name: 'laptop',
        publicKey:
          'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3tqsj9Ps9EBDl7k1QzTUxHm6HYgL5eFvbi1xmIbhkO ana@laptop',
      },
    ],
  })

const EXAMPLE = {
  name: 'laptop',
  keyId: 'k3v9x2m4p7q8',
  type: 'ssh-ed25519',
  fingerprint: 'SHA256:2v7D1gYv8gk7hUq0pVx2mTtq0vX7nq1Yk3cUoUu8h3I',
  publicKey: 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ3tqsj9Ps9EBDl7k1QzTUxHm6HYgL5eFvbi1xmIbhkO',
  confirmed: false,
  confirmAs: 'confirm+mfzwizlomj2wk3thnbuw',
  createdAt: '2026-01-01T12:00:00.000Z',
}

export const sshKeySchema = z
  .strictObject({
    name: nameField,
    keyId: z
      .string()
      .describe('The API key that the SSH key belongs to. It gives access to the same sandboxes.'),
    type: z.string(),
    fingerprint: z.string().describe('As `ssh-keygen -l` shows it.'),
    publicKey: z.string().describe('Without its comment.'),
    confirmed: z
      .boolean()
      .describe('Its holder has proved to have the private key. An unconfirmed key gives no access.'),
    confirmAs: z
      .string()
      .exactOptional()
      .describe(
        'The SSH user name with which the holder connects once to confirm the key. Absent once it is confirmed.',
      ),
    createdAt: timestampField,
  })
  .meta({ id: 'SshKey', examples: [EXAMPLE] })

export const sshKeyPageSchema = pageOf(sshKeySchema).meta({ id: 'SshKeyPage' })
export const listSshKeysQuery = z.strictObject(pageQuery)
export const sshKeyParams = z.strictObject({ name: nameField })

export const sshEndpointSchema = z
  .strictObject({
    host: z
      .string()
      .describe('The address that the SSH server listens on; `0.0.0.0` or `::` for all addresses.'),
    port: z.int(),
    hostKey: z.string().describe('The host key, for `known_hosts`.'),
    fingerprint: z.string(),
  })
  .meta({
    id: 'SshEndpoint',
    examples: [
      {
        host: '127.0.0.1',
        port: 2222,
        hostKey: EXAMPLE.publicKey,
        fingerprint: EXAMPLE.fingerprint,
      },
    ],
  })

export type AddSshKeyBody = z.input<typeof addSshKeySchema>
export type SshKeyAnswer = z.output<typeof sshKeySchema>
export type SshKeyPageAnswer = z.output<typeof sshKeyPageSchema>
export type SshEndpointAnswer = z.output<typeof sshEndpointSchema>
