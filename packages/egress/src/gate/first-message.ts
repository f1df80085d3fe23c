import { HELLO_MAX_BYTES } from '../limits.ts'
import { normalizeName } from '../policy/domain-name.ts'
import { looksLikeTls, readClientHello } from './client-hello.ts'
import { readRequestHead } from './request-head.ts'

/** The first message of a client. */
export type FirstMessage =
  | {
      readonly kind: 'tls' | 'http'
      /** A normalized name or a canonical address. Undefined when there is none that counts. */
      readonly name: string | undefined
      /** A well-formed ClientHello without a name. */
      readonly isNameless?: boolean
      /** Why `name` does not tell which host the connection is for. */
      readonly problem?: string
    }
  /** Another protocol, or one in which the server speaks first. It names no host. */
  | { readonly kind: 'other' }

const UNREADABLE_TLS: FirstMessage = {
  kind: 'tls',
  name: undefined,
  problem: 'TLS without a name that can be read',
}
const UNREADABLE_HTTP: FirstMessage = {
  kind: 'http',
  name: undefined,
  problem: 'HTTP without a name that can be read',
}
const NAMELESS: FirstMessage = { ...UNREADABLE_TLS, isNameless: true, problem: 'TLS without a name (no SNI)' }
const ENCRYPTED = 'TLS with an encrypted ClientHello, which hides the name that it asks for'

/** Returns undefined when more bytes are needed. Never throws. */
export function readFirstMessage(bytes: Buffer): FirstMessage | undefined {
  const isTooLong = bytes.length >= HELLO_MAX_BYTES
  if (bytes.length === 0) return undefined
  if (looksLikeTls(bytes)) return readTls(bytes) ?? (isTooLong ? UNREADABLE_TLS : undefined)
  const head = readRequestHead(bytes)
  if (head === 'other') return { kind: 'other' }
  if (head === 'more') return isTooLong ? UNREADABLE_HTTP : undefined
  return head.name === undefined ? UNREADABLE_HTTP : { kind: 'http', name: head.name }
}

function readTls(bytes: Buffer): FirstMessage | undefined {
  const hello = readClientHello(bytes)
  if (hello === 'more') return undefined
  if (hello.isNameless === true) return NAMELESS
  const name = normalizeName(hello.name ?? '')
  if (hello.isEncrypted === true) return { kind: 'tls', name, problem: ENCRYPTED }
  return name === undefined ? UNREADABLE_TLS : { kind: 'tls', name }
}
