import { DormouseError } from '../error.ts'
import { environment } from './environment.ts'

/** The address of the server, and the API key. */
export interface Address {
  readonly url: string
  readonly apiKey: string
  /** From the file that a local server writes whenever it starts. */
  readonly isFromFile: boolean
}

export interface AddressOptions {
  readonly url?: string | undefined
  readonly apiKey?: string | undefined
  readonly dataDir?: string | undefined
}

const DEFAULT_URL = 'http://127.0.0.1:7070'
const DEFAULT_DATA_DIR = '/var/lib/dormouse'

/** From the options, then the environment, then the file of a local server. */
export async function findAddress(options: AddressOptions): Promise<Address> {
  const asked = options.url ?? environment('DORMOUSE_URL')
  const apiKey = options.apiKey ?? environment('DORMOUSE_API_KEY')
  if (asked !== undefined && apiKey !== undefined) return { url: checked(asked), apiKey, isFromFile: false }
  const dataDir = options.dataDir ?? environment('DORMOUSE_DATA') ?? DEFAULT_DATA_DIR
  const local = await findLocalServer(dataDir)
  const url = checked(asked ?? local?.url ?? DEFAULT_URL)
  // The key in the file is only for the server that wrote it.
  const localKey = local !== undefined && originOf(local.url) === originOf(url) ? local.key : undefined
  const key = apiKey ?? localKey
  if (key === undefined) {
    throw new DormouseError('unauthorized', `No API key for ${url} was found`, {
      hint:
        'Give `apiKey`, or set DORMOUSE_API_KEY. On the machine of the server, a user who may read its file needs ' +
        'neither.',
    })
  }
  return { url, apiKey: key, isFromFile: local !== undefined && asked === undefined }
}

async function findLocalServer(dataDir: string): Promise<{ url: string; key: string } | undefined> {
  if (typeof process === 'undefined' || process.versions?.node === undefined) return undefined
  const { readLocalServer } = await import('#local-server')
  return readLocalServer(dataDir)
}

/** Without slashes at its end. */
function checked(url: string): string {
  if (originOf(url) === undefined) {
    throw new DormouseError('invalid_argument', `url: ${JSON.stringify(url)} is not a URL of a server`, {
      hint: 'Give one like http://127.0.0.1:7070.',
    })
  }
  return url.replace(/\/+$/, '')
}

function originOf(url: string): string | undefined {
  try {
    const { protocol, origin } = new URL(url)
    return protocol === 'http:' || protocol === 'https:' ? origin : undefined
  } catch {
    return undefined
  }
}
