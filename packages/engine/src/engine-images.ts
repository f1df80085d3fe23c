import type { Duplex } from 'node:stream'
import type { SandboxId } from '@dormouse/contracts'
import type { Snapshot } from './engine.ts'

/** Only this registry gets them. */
export interface ImageCredentials {
  /** With its port. */
  readonly registry: string
  readonly username: string
  readonly password: string
}

/** How a pull reaches registries when it must not use the host's network. */
export interface ImageNetwork {
  /** Connects to a host, by name or address. Rejects with a sentence when it may not be reached. */
  dial(target: { readonly host: string; readonly port: number }, signal: AbortSignal): Promise<Duplex>
  /** Ports of 127.0.0.1 of the host with registries that may be reached. */
  readonly loopbackPorts: readonly number[]
}

export interface ImportImage {
  /** As docker names it (`node:24`), or `oci:/directory`, `oci-archive:/file`, `docker-archive:/file` on the host. */
  readonly image: string
  readonly credentials?: readonly ImageCredentials[] | undefined
  /** A registries.conf with mirrors and insecure registries. Default: that of the host. */
  readonly registriesConf?: string | undefined
  /** Default: the host's network, with all that it reaches. */
  readonly network?: ImageNetwork | undefined
  /** The snapshot is taken of no sandbox; it gets this id. */
  readonly sandboxId: SandboxId
  /** The most that one unpacked layer may have. */
  readonly maxBytes: number
  readonly maxFiles: number
  /** Gets progress. */
  readonly onLine?: (line: string) => void
  readonly signal?: AbortSignal | undefined
}

/** How programs of an image start when a call does not say otherwise. */
export interface ProgramSettings {
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** A name or a number, maybe with a group: `node`, `1000:1000`. */
  readonly user: string
}

/** What an image says about itself. */
export interface ImageDescription extends ProgramSettings {
  readonly name: string
  readonly digest: string
  readonly entrypoint: readonly string[]
  readonly cmd: readonly string[]
  /** `['CMD', …]` or `['CMD-SHELL', script]`. */
  readonly healthcheck?: readonly string[]
  /** What commands that are text run in. */
  readonly shell?: readonly string[]
}

export interface ImportedImage {
  /** Of kind `files`. */
  readonly snapshot: Snapshot
  readonly image: ImageDescription
}
