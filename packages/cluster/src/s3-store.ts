import { DormouseError } from '@dormouse/contracts'
import { AwsClient } from 'aws4fetch'
import type { ObjectStore, StoredObject } from './object-store.ts'

export interface S3StoreOptions {
  /** `https://s3.example.com/bucket`, and optionally a path below it. */
  readonly url: string
  readonly region: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

const REQUEST_TIMEOUT_MS = 30_000
const RETRIES = 3
/** Hosts write objects of about a megabyte. */
const OBJECT_MAX_BYTES = 8 * 1024 ** 2
const LIST_MAX_BYTES = 64 * 1024 ** 2

/** Objects in a bucket of any store that speaks S3. */
export class S3Store implements ObjectStore {
  readonly #client: AwsClient
  readonly #url: URL
  /** Of names below the bucket. */
  readonly #prefix: string

  constructor({ url, region, accessKeyId, secretAccessKey }: S3StoreOptions) {
    this.#client = new AwsClient({ accessKeyId, secretAccessKey, region, service: 's3', retries: RETRIES })
    const [, bucket = '', ...path] = new URL(url).pathname.split('/')
    this.#url = new URL(`/${bucket}`, url)
    this.#prefix = path
      .filter((part) => part !== '')
      .map((part) => `${part}/`)
      .join('')
  }

  async put(name: string, content: Uint8Array, { keepsFirst = false } = {}): Promise<boolean> {
    // Not every store knows conditions. A second write of the same content does no harm.
    if (keepsFirst && (await this.has(name))) return false
    await this.#ask('PUT', name, { body: new Uint8Array(content), accepts: [200, 201, 204] })
    return true
  }

  async find(name: string): Promise<Uint8Array | undefined> {
    const answer = await this.#ask('GET', name, { accepts: [200, 404] })
    const content = await readAtMost(answer, OBJECT_MAX_BYTES).catch(explain)
    return answer.status === 404 ? undefined : content
  }

  async has(name: string): Promise<boolean> {
    return (await this.#ask('HEAD', name, { accepts: [200, 404] })).status === 200
  }

  async remove(name: string): Promise<void> {
    await this.#ask('DELETE', name, { accepts: [200, 204, 404] })
  }

  async *list(): AsyncGenerator<StoredObject> {
    // The first version of this request continues after a name, which every store knows.
    for (let marker: string | undefined = ''; marker !== undefined; ) {
      const query: URLSearchParams = new URLSearchParams({ prefix: this.#prefix, marker })
      const answer: Response = await this.#ask('GET', undefined, { accepts: [200], query })
      const text: string = Buffer.from(await readAtMost(answer, LIST_MAX_BYTES).catch(explain)).toString()
      marker = undefined
      for (const [, entry = ''] of text.matchAll(/<Contents>(.*?)<\/Contents>/gs)) {
        const key = tagIn(entry, 'Key') ?? ''
        yield { name: key.slice(this.#prefix.length), bytes: Number(tagIn(entry, 'Size') ?? 0) }
        if (tagIn(text, 'IsTruncated') === 'true') marker = key
      }
    }
  }

  async nowMs(): Promise<number> {
    const answer = await this.#ask('HEAD', 'clock', { accepts: [200, 404] })
    const date = Date.parse(answer.headers.get('date') ?? '')
    if (Number.isFinite(date)) return date
    throw new DormouseError('cluster_unavailable', 'The S3 store does not say what time it is.')
  }

  async #ask(
    method: string,
    name: string | undefined,
    {
      accepts,
      body,
      query,
    }: { accepts: readonly number[]; body?: Uint8Array<ArrayBuffer>; query?: URLSearchParams },
  ): Promise<Response> {
    const url = new URL(this.#url)
    if (name !== undefined) url.pathname += `/${this.#prefix}${name}`
    if (query !== undefined) url.search = query.toString()
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    const answer = await this.#client.fetch(url, { method, signal, ...(body && { body }) }).catch(explain)
    if (accepts.includes(answer.status)) return answer
    return explain(new Error(`${method} was answered with ${answer.status}`))
  }
}

async function readAtMost({ body }: Response, maxBytes: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += piece.length
    if (bytes > maxBytes) throw new Error(`the answer has more than ${maxBytes} bytes`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

/** The names that a depot uses need no escapes. */
function tagIn(text: string, tag: string): string | undefined {
  return new RegExp(`<${tag}>([^<]*)</${tag}>`).exec(text)?.[1]
}

function explain(cause: unknown): never {
  throw new DormouseError('cluster_unavailable', 'The S3 store of the depot does not answer as expected.', {
    hint: 'Check `cluster.s3` and the credentials in `cluster.s3.credentialsFile`.',
    cause,
  })
}
