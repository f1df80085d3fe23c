// Written by tools/make-contract.mjs from packages/contracts/src/http: change that one.

export type VariableDetailAnswer = {
  variable: {
    name: string
    type: string
    shape?: readonly number[] | undefined
    bytes?: number | undefined
    preview: string
    opens?: 'image' | 'table' | 'text' | undefined
  }
  table?:
    | {
        columns: readonly { name: string; type: string }[]
        rows: readonly { label: string; cells: readonly (string | null)[] }[]
        rowCount: number
        matchCount: number
        columnCount: number
        part?: string | undefined
      }
    | undefined
  image?: { png: string; width: number; height: number } | undefined
  text?: string | undefined
}

export type VariablesAnswer = {
  isLive: boolean
  at?: string | undefined
  contexts: readonly {
    name: string
    language: 'bash' | 'javascript' | 'python' | 'r' | 'typescript'
    state: 'busy' | 'idle'
    variables: readonly {
      name: string
      type: string
      shape?: readonly number[] | undefined
      bytes?: number | undefined
      preview: string
      opens?: 'image' | 'table' | 'text' | undefined
    }[]
    more: boolean
  }[]
}
