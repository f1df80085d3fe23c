// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type CompletionsAnswer = { matches: readonly string[]; replaces: string; more: boolean }

export type ContextAnswer = {
  name: string
  language: 'bash' | 'javascript' | 'python' | 'r' | 'typescript'
  user: string
  pid: number | null
  state: 'busy' | 'dead' | 'idle' | 'starting'
  restarts: number
}

export type ContextListAnswer = { items: readonly ContextAnswer[] }

export type CreateContextBody = {
  name: string
  user?: string
  cwd?: string
  env?: Record<string, string>
  language?: 'bash' | 'javascript' | 'python' | 'r' | 'typescript' | undefined
  python?: string
}
