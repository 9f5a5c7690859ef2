// The user's answers to an agent's questions, as chosen and written so far. Pure, except for its signals.

import { type Signal, signal } from '@preact/signals';

import { isObject } from './input.ts';

export type Option = { label: string; description?: string; preview?: string };

/** The user's answer to one question, as chosen and written so far. */
type Begun = { chosen: string[]; own: string };

/** The fields that are not drawn. */
const without = (fields: any, drawn: (name: string, value: any) => boolean) =>
  Object.fromEntries(Object.entries(fields ?? {}).filter(([name, value]) => !drawn(name, value)));

const isEmpty = (value: any) => isObject(value) && !Object.keys(value).length;

const isOption = (one: any) => isObject(one) && typeof one.label === 'string';

/** The parts of an option that the form does not show elsewhere. */
function moreOf(option: any) {
  if (!isOption(option)) return option;
  return without(
    option,
    (name, value) => name === 'label' || (['description', 'preview'].includes(name) && typeof value === 'string'),
  );
}

/** The name of the part of the form, or of a question, with the fields that the form does not show elsewhere. */
export const MORE = 'more';

/** The name of a part of the form that has to be read, for the question with this index. */
export const partOf = (index: number, part: string, option?: number) =>
  [index, part, ...(option === undefined ? [] : [option])].join(' ');

export class Question {
  /** The parts of the question that the form does not show elsewhere. They are shown unchanged. */
  more: Record<string, any>;
  text: string;
  header: string;
  multiple: boolean;
  options: Option[];
  chosen: Signal<string[]>;
  own: Signal<string>;

  constructor(asked: any, before: Begun | undefined) {
    const { question, header, multiSelect, options } = asked;
    const all: any[] = Array.isArray(options) ? options : [];
    this.more = {
      ...without(
        asked,
        (name, value) =>
          (['question', 'header'].includes(name) && typeof value === 'string') ||
          (name === 'multiSelect' && typeof value === 'boolean') ||
          (name === 'options' && Array.isArray(value)),
      ),
      ...Object.fromEntries(
        all.map((one, index) => [`option ${index + 1}`, moreOf(one)]).filter(([, more]) => !isEmpty(more)),
      ),
    };
    this.text = String(question ?? '');
    this.header = typeof header === 'string' ? header : '';
    this.multiple = Boolean(multiSelect);
    this.options = all.filter(isOption);
    const labels = this.options.map(({ label }) => label);
    this.chosen = signal((before?.chosen ?? []).filter((label) => labels.includes(label)));
    this.own = signal(before?.own ?? '');
  }

  /** Chooses an option. If several may be chosen, choosing it again removes it. */
  pick(label: string) {
    const { value } = this.chosen;
    if (!this.multiple) this.chosen.value = [label];
    else this.chosen.value = value.includes(label) ? value.filter((one) => one !== label) : [...value, label];
  }

  /** Sets the user's own answer. It replaces a chosen option if only one answer is possible. */
  write(text: string) {
    this.own.value = text;
    if (!this.multiple && text.trim()) this.chosen.value = [];
  }

  /**
   * The parts that have to be read, which are the question, its other fields, and the chosen options with their
   * previews.
   */
  parts(index: number): string[] {
    const ofOptions = this.options.flatMap(({ label, preview }, n) => {
      if (!this.chosen.value.includes(label)) return [];
      const hasPreview = typeof preview === 'string' && preview !== '';
      return [partOf(index, 'option', n), ...(hasPreview ? [partOf(index, 'preview', n)] : [])];
    });
    return [partOf(index, 'text'), ...(isEmpty(this.more) ? [] : [partOf(index, MORE)]), ...ofOptions];
  }

  /** The answer to send, or '' while nothing is chosen or written. Several choices are in the order of the options. */
  get answer(): string {
    const own = this.own.value.trim();
    const labels = this.options.map(({ label }) => label).filter((label) => this.chosen.value.includes(label));
    return (this.multiple ? [...labels, own].filter(Boolean) : [labels[0] ?? own]).join(', ');
  }
}

export class Questions {
  /** The parts of the input that the form does not show elsewhere. */
  more: Record<string, any>;
  all: Question[];
  /** The index of the question that number keys act on, and that is shown if there is room for only one. */
  at: Signal<number>;
  /** The user's next step, in words: answer a question, or show a preview in full. '' if no step is left. */
  problem: Signal<string>;
  /** The parts of the form that have been in view. */
  read = new Set<string>();
  /** Whether some part that is shown now and has to be read has not been in view yet. */
  isUnread: Signal<boolean> = signal(false);
  _input: any;
  _keep: (begun: Begun[] | undefined) => void;

  /**
   * @param input the input of the tool, whose `questions` are
   *   `{question, header, multiSelect, options: [{label, description, preview}]}`
   * @param keep is called with the draft answers, or undefined if there are none
   */
  constructor(input: any, begun: Begun[] | undefined, keep: (begun: Begun[] | undefined) => void) {
    this._input = input;
    this._keep = keep;
    this.more = without(input, (name) => ['questions', 'answers'].includes(name));
    this.all = input.questions.map((one: any, index: number) => new Question(one, begun?.[index]));
    this.at = signal(0);
    this.problem = signal('');
  }

  get begun(): Begun[] | undefined {
    const now = this.all.map(({ chosen, own }) => ({ chosen: chosen.value, own: own.value }));
    return now.some(({ chosen, own }) => chosen.length || own) ? now : undefined;
  }

  /**
   * The first part that still has to be read before all questions, or those with these indexes, are answered. Undefined
   * if no such part is left.
   */
  unread(indexes = this.all.map((_, index) => index)): string | undefined {
    const parts = [...(isEmpty(this.more) ? [] : [MORE]), ...indexes.flatMap((index) => this.all[index].parts(index))];
    return parts.find((part) => !this.read.has(part));
  }

  /** Clears the problem and keeps the draft. Must be called after each change. */
  changed() {
    this.problem.value = '';
    this._keep(this.begun);
  }

  /** Picks the option with this number, counted from 1, of the current question. Returns whether there is one. */
  pick(number: number) {
    const question = this.all[this.at.value];
    const option = question?.options[number - 1];
    if (!option) return false;
    question.pick(option.label);
    this.changed();
    return true;
  }

  /** Goes to another question, but to a later one only if the current one is answered. */
  step(by: number) {
    const question = this.all[this.at.value];
    if (by > 0 && !question.answer) this.problem.value = missing(question);
    else this.at.value = Math.min(Math.max(this.at.value + by, 0), this.all.length - 1);
  }

  /** The tool's input with the answers in it. If one is missing, shows its question and returns undefined. */
  submit(): object | undefined {
    const open = this.all.findIndex((question) => !question.answer);
    if (open >= 0) {
      this.at.value = open;
      this.problem.value = missing(this.all[open]);
      return undefined;
    }
    return { ...this._input, answers: Object.fromEntries(this.all.map(({ text, answer }) => [text, answer])) };
  }
}

const missing = ({ text, options }: Question) =>
  options.length ? `Pick an option or type an answer for “${text}”.` : `Type an answer for “${text}”.`;
