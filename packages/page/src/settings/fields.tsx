import type { SandboxInfo } from 'dormouse'
import type { PartProps } from '../sandbox/sandbox-page.tsx'

export type Save = (change: Parameters<PartProps['sandbox']['update']>[0], what: string) => void

export interface FormProps {
  readonly info: SandboxInfo
  readonly onSave: Save
}

export function fieldsOf(event: SubmitEvent): (name: string) => string {
  event.preventDefault()
  const data = new FormData(event.currentTarget as HTMLFormElement)
  return (name) => String(data.get(name) ?? '').trim()
}

interface FieldProps {
  readonly label: string
  readonly name: string
  readonly value: string | number
  readonly isNumber?: boolean
}

export function Field({ label, name, value, isNumber = false }: FieldProps) {
  const rest = { name, defaultValue: value }
  return (
    <label>
      {label}
      {isNumber ? <input type="number" min="0" step="any" {...rest} /> : <input type="text" {...rest} />}
    </label>
  )
}
