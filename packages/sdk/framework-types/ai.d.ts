export interface Schema<Input> {
  readonly jsonSchema: object
  readonly validate?: (value: unknown) => { success: true; value: Input } | { success: false; error: Error }
}
export function jsonSchema<Input>(schema: object): Schema<Input>
