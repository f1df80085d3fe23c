// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.
import type { NetworkBody } from './network.ts'

export type CreateTemplateBody = {
  name: string
  description?: string
  snapshotId?: string
  from?: string
  network?: NetworkBody
  packages?: string[]
  pip?: string[]
  commands?: string[]
  preload?: string[]
}

export type TemplateAnswer = {
  name: string
  description?: string | undefined
  state: 'building' | 'failed' | 'ready'
  source: 'built_in' | 'description' | 'host' | 'snapshot'
  from?: string | undefined
  snapshotId?: string | undefined
  createdAt: string
  bytes?: number | undefined
  materials?: { count: number; sha256: string } | undefined
  logTail?: string | undefined
  error?: string | undefined
}

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
