import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { nkeys } from '@nats-io/transport-node'

const UNLIMITED = Object.fromEntries(
  [
    ...['subs', 'data', 'payload', 'imports', 'exports', 'conn', 'leaf'],
    ...['mem_storage', 'disk_storage', 'streams', 'consumer'],
  ].map((name) => [name, -1]),
)

/** An operator of NATS with one account, which may use JetStream: what `nsc` makes. */
export class NatsOperator {
  readonly #operator = nkeys.createOperator()
  readonly #account = nkeys.createAccount()
  readonly #systemAccount = nkeys.createAccount()

  /** Writes the configuration of a server. Returns its arguments. */
  async configure(directory: string): Promise<string[]> {
    const accounts = [this.#account, this.#systemAccount].map((account) => {
      const id = account.getPublicKey()
      const limits = account === this.#account ? { ...UNLIMITED, wildcards: true } : {}
      return `${id}: ${sign(this.#operator, id, { type: 'account', limits })}`
    })
    const path = join(directory, 'operator.conf')
    const lines = [
      `operator: ${sign(this.#operator, this.#operator.getPublicKey(), { type: 'operator' })}`,
      // JetStream needs one.
      `system_account: ${this.#systemAccount.getPublicKey()}`,
      'resolver: MEMORY',
      ...['resolver_preload: {', ...accounts, '}'],
    ]
    await writeFile(path, lines.join('\n'))
    return ['--config', path]
  }

  /** The `.creds` file of a new user. */
  async writeCredentials(path: string, { expiresAt }: { expiresAt?: number } = {}): Promise<void> {
    const user = nkeys.createUser()
    const limits = { subs: -1, data: -1, payload: -1 }
    const token = sign(this.#account, user.getPublicKey(), { type: 'user', ...limits }, expiresAt)
    const seed = Buffer.from(user.getSeed()).toString()
    const part = (name: string, content: string) =>
      `-----BEGIN ${name}-----\n${content}\n------END ${name}------\n\n`
    await writeFile(path, part('NATS USER JWT', token) + part('USER NKEY SEED', seed))
  }
}

/** A JWT as NATS has it: signed with Ed25519, whose keys are written as nkeys. */
function sign(issuer: nkeys.KeyPair, subject: string, nats: object, expiresAt?: number): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = {
    ...{ iat: Math.floor(Date.now() / 1000), iss: issuer.getPublicKey(), name: 'dormouse', sub: subject },
    ...(expiresAt !== undefined && { exp: Math.floor(expiresAt / 1000) }),
    nats: { ...nats, version: 2 },
  }
  const jti = createHash('sha256').update(JSON.stringify(claims)).digest('hex')
  const signed = `${encode({ typ: 'JWT', alg: 'ed25519-nkey' })}.${encode({ ...claims, jti })}`
  return `${signed}.${Buffer.from(issuer.sign(Buffer.from(signed))).toString('base64url')}`
}
