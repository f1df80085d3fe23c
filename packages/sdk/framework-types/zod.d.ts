export interface Field {
  describe(text: string): Field
  optional(): Field
  min(least: number): Field
  max(most: number): Field
}
export const z: {
  string(): Field
  int(): Field
  object(fields: Readonly<Record<string, Field>>): object
}
