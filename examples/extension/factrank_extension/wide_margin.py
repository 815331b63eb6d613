"""A closed form: the parabola with twice its margin. The certificate judges it by its weights."""

from dataclasses import replace

from factrank.families.attention.forms import Parabola


class WideMargin:
    """The parabola with every logit doubled."""

    name, estimated = "wide-margin", False
    parabola = Parabola()

    def refusal(self, database, precision):
        """Why it cannot hold this database in this precision; None if it can."""
        return self.parabola.refusal(database, precision)

    def shape(self, database, precision):
        """The size of the layer."""
        return self.parabola.shape(database, precision)

    def build(self, database, precision, search):
        """The layer; powers of two keep every weight exact."""
        built = self.parabola.build(database, precision, search)
        layer = replace(built.layer, unembedding=2 * built.layer.unembedding)
        return replace(built, layer=layer, construction=self.name, editing={})


WIDE_MARGIN = WideMargin()
