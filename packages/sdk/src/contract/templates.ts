// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
import type { NetworkBody } from './network.ts'

export type CreateTemplateBody = {
  image?: string
  registryAuth?:
    | { username: string; password: string; registry?: string }[]
    | { username: string; password: string; registry?: string }
  dockerfile?: string
  context?: string
  buildArgs?: Record<string, string>
  target?: string
  steps?: (
    | { run: string }
    | { copy: string[]; to: string; chown?: string; chmod?: string; context?: string }
    | { env: Record<string, string> }
    | { workdir: string }
    | { user: string }
    | { shell: string[] }
    | { fresh: true }
  )[]
  start?: string
  ready?: { port?: number; command?: string; log?: string; timeoutMs?: number }
  name: string
  description?: string
  snapshotId?: string
  from?: string
  network?: NetworkBody
  packages?: string[]
  pip?: string[]
  commands?: string[]
  preload?: string[]
  isolation?: 'microvm' | 'process'
}

export type TemplateAnswer = {
  name: string
  description?: string | undefined
  state: 'building' | 'failed' | 'ready'
  source: 'built_in' | 'description' | 'host' | 'snapshot'
  from?: string | undefined
  image?: string | undefined
  isolation?: 'microvm' | 'process' | undefined
  failedStep?: string | undefined
  progress?: string | undefined
  snapshotId?: string | undefined
  createdAt: string
  bytes?: number | undefined
  materials?: { count: number; sha256: string } | undefined
  logTail?: string | undefined
  error?: string | undefined
}

export type TemplateLogLineAnswer = { seq: number; at: string; text: string }

export type TemplateMaterialsAnswer = {
  count: number
  sha256: string
  items: readonly {
    type: 'deb' | 'wheel'
    name: string
    version: string
    architecture?: string | undefined
    sha256?: string | undefined
  }[]
}

export type TemplatePageAnswer = { items: readonly TemplateAnswer[]; nextCursor?: string | undefined }

export type UploadAnswer = { id: string; bytes: number; sha256: string; expiresAt: string }
